"""What operators see: metrics, debug dumps and the admin listener."""
