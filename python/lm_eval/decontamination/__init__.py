"""Removal of strings that a model may have been trained on."""
