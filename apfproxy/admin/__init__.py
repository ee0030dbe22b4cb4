"""Operators' view of a process: metrics, access log, debug dumps, live page, admin listener."""
