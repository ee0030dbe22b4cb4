"""Findings about valid objects that will not work as intended.  Pure."""
