"""Records of what has happened: `events` of the core and of `events.k8s.io`, which are one."""
