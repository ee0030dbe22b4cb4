"""Kubernetes objects as data: types, decoding, defaults, validation and conversion.  Pure."""
