"""Tests of the Python package; they need the standard library alone."""
