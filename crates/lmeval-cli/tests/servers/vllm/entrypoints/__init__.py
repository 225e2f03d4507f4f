"""The entry points of the stand-in."""
