"""What is served, as OpenAPI describes it: for `kubectl explain`, `apply` and `diff`."""
