"""Hashed locks: made by uv, explained where the resolver fails, compared with the package index."""
