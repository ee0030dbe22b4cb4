"""Controllers of pods: the group `apps`, and ReplicationController of the core."""
