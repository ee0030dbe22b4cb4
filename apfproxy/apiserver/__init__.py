"""The embedded apiserver: a small Kubernetes API server for real clients."""
