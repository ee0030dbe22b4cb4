"""Tests of flow control within Python programs."""
