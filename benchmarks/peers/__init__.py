"""umab next to its peers: the same work for each, every peer in its own environment. Run by `make bench-peers`."""
