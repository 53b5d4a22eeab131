"""Signs and verifies: the keys of images and of bundles."""
