"""The embedded API server: a small Kubernetes API for tests."""
