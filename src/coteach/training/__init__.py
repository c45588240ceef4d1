"""From networks, a method and batches to trained networks. Knows nothing of files."""
