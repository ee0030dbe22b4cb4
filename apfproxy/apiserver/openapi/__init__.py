"""The OpenAPI documents of the API server, for `kubectl explain`, `apply` and `diff`."""
