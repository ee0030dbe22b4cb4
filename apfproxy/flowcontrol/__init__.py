"""API Priority and Fairness: classification, limits and fair queuing.  Pure."""
