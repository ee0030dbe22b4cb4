"""Tests of server-side apply."""
