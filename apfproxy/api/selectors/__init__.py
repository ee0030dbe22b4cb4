"""Selectors: which objects of a collection a client asks for."""
