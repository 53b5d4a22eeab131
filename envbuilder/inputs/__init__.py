"""Gets what a build needs before it starts: source archives, kept wheels, the base image."""
