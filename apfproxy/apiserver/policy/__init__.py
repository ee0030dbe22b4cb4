"""PodDisruptionBudgets and evictions."""
