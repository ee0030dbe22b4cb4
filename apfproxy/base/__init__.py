"""What has no subject of its own: tasks, duties, faults, clock, sockets, signals, files."""
