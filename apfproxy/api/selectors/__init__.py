"""Label selectors and field selectors."""
