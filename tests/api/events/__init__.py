"""Tests of `apfproxy.api.events`."""
