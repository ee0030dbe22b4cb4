"""Tests of the files in config/ that are for other programs."""
