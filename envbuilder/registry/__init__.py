"""Publishes, finds and pulls images in registries, through the OCI distribution API."""
