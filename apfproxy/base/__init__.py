"""The ground floor, without a subject of its own: tasks, faults, clock, sockets, signals, files."""
