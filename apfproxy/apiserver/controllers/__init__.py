"""What a server does by itself: each controller watches some kinds and keeps something true."""
