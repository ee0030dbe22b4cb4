"""HTTP/2 to clients: frames by libnghttp2, each stream an exchange as a request of HTTP/1.1 is."""
