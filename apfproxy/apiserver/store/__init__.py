"""The store of the API server: versions, snapshots and watches; writes to SQLite."""
