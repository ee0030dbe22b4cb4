"""The proxy towards clients that speak HTTP/2."""
