"""Structures of objects as data, and reading by them."""
