"""Talks to docker: to the engine through its SDK, and to BuildKit through the command line."""
