"""One reader per family of call bodies."""
