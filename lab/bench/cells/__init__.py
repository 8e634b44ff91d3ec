"""The cells of bench-client's table, one file a subject."""
