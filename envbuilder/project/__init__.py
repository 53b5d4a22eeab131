"""Projects: an environment with what its users add to it, locked beside the row."""
