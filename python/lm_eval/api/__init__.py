"""Base classes and registries for code that extends lm-eval."""
