"""What all tests share: how much hypothesis tries, and that nothing it does depends on time."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast", max_examples=40, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile(
    "deep", max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("APFPROXY_HYPOTHESIS", "fast"))
