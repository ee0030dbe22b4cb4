"""The data plane of a test, for tests of this folder, too."""

from tests.proxy.conftest import bench

__all__ = ["bench"]
