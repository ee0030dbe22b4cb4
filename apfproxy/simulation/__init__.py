"""Requests replayed through the flow control on a virtual clock."""
