"""One module per command, in a folder of their own, as the name of one is that of a built-in (list)."""
