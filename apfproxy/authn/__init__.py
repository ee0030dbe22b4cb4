"""Who asks: certificates, tokens, front proxies, impersonation, and what the origin is told."""
