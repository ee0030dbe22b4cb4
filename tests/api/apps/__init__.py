"""Tests of `apfproxy.api.apps`."""
