"""Files in which programs keep objects between runs."""
