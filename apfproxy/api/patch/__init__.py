"""Patches: what a client says of the difference between an object and the one it wants."""
