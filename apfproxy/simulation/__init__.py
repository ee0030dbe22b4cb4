"""Replays requests through the flow control on a virtual clock.  Pure."""
