"""Tests of what `apfproxy check` finds."""
