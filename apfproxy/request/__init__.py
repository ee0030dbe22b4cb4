"""A request's attributes and its user.  Pure."""
