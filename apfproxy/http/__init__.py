"""HTTP/1.1 without I/O: heads, fields, bodies, upgrades."""
