"""Builds an image: plan, inputs, engine, proof, report."""
