"""The documented training commands for an environment, on one node or on several that Ray connects."""
