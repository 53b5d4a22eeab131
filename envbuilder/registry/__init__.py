"""Registries: where images are published, asked by the OCI distribution API."""
