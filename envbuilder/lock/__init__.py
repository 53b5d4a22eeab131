"""Hashed locks: resolved by uv, explained if the resolver fails, and compared with the package index."""
