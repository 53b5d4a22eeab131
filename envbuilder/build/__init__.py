"""Builds the image of an environment: inputs, build, proof, report."""
