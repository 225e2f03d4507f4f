"""Tests of the Python package; they need only the standard library."""
