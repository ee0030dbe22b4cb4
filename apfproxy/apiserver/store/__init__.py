"""Objects and their changes: versions, snapshots and watches in memory, kept for good on disk."""
