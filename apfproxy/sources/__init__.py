"""Sources of settings, flow-control objects and object counts."""
