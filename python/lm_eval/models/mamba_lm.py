"""Models of the package `mamba_ssm`: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["MambaLMWrapper"]


class MambaLMWrapper(UnsupportedModel):
    """Models of the package `mamba_ssm`."""

    NAME = "mamba_ssm"
