"""Whole proxies over real sockets, before a scripted upstream."""
