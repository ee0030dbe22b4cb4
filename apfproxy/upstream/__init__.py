"""The servers behind: pool, endpoints, connections, their health, discovery."""
