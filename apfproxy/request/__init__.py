"""What a request is: its attributes and its user.  Pure."""
