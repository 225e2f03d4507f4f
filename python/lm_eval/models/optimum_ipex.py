"""Intel's extension for PyTorch: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["IPEXLM"]


class IPEXLM(Elsewhere):
    """Intel's extension for PyTorch."""

    NAME = "ipex"
