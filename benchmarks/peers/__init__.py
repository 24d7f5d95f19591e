"""umab beside its peers: the same work in each, every peer in an environment of its own. Run by `make bench-peers`."""
