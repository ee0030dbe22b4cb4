"""What operators read: metrics, access log, debug dumps, live page, admin listener."""
