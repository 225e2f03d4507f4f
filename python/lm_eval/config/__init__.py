"""Typed configuration of tasks and groups."""
