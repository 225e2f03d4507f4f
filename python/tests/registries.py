"""Registrations that last for one test."""

from __future__ import annotations

import unittest

from lm_eval.api import registry


class RegistryTestCase(unittest.TestCase):
    """Forgets at the end of a test what it registered."""

    def setUp(self) -> None:
        """Remember the entries of all registries."""
        for table in registry._REGISTRIES.values():
            len(table)
            self.addCleanup(setattr, table, "_entries", dict(table._entries))
