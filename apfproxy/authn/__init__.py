"""Authentication by certificates, tokens and front proxies; impersonation; the server's fields."""
