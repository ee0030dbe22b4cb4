"""The commands, a file each: flags, output and exit codes."""
