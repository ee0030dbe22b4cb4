"""Tests of `apfproxy.request`."""
