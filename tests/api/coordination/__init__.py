"""Tests of `apfproxy.api.coordination`."""
