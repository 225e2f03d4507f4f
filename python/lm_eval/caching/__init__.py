"""A file cache for objects that scripts keep between runs."""
