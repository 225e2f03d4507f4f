"""Registrations that last for one test."""

from __future__ import annotations

import unittest

from lm_eval.api import registry


class RegistryTestCase(unittest.TestCase):
    """Restores all registries after each test."""

    def setUp(self) -> None:
        """Save the entries of all registries."""
        for table in registry._REGISTRIES.values():
            len(table)
            self.addCleanup(setattr, table, "_entries", dict(table._entries))
