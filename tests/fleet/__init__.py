"""Tests of what the members of a fleet share."""
