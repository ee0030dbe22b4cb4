"""Tests of ResourceSlices."""
