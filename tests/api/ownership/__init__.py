"""Tests of the objects, of any group."""
