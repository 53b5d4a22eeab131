"""One module per command. They are in a folder of their own so that none of them hides a built-in (list)."""
