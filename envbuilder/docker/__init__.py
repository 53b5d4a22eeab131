"""Controls docker: the engine through its SDK, and BuildKit through the command line."""
