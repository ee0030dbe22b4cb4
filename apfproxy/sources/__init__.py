"""Where configuration and object counts come from."""
