"""Objects of the group `policy`: disruption budgets and evictions."""
