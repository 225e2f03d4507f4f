"""Runs on a Ray cluster: `lm-eval ray run` places workers or servers on its nodes, and an engine that uses them.

The binary sends these modules to the interpreter that has Ray; they import only the standard library and `ray`.
"""

from __future__ import annotations

__all__: list[str] = []
