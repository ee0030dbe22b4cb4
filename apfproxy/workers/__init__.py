"""Several processes that serve at the same address: their parent, and what they tell each other."""
