"""Tests of where settings and objects come from."""
