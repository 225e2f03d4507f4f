"""Removal of text that a model may have been trained on."""
