"""The HTTP server: listening sockets, worker processes, the hardened HTTP/1.1 protocol."""
