"""The order of the stages of a build: inputs, engine, proof, report."""
