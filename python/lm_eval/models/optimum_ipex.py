"""Intel's extension for PyTorch: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["IPEXLM"]


class IPEXLM(UnsupportedModel):
    """Intel's extension for PyTorch."""

    NAME = "ipex"
