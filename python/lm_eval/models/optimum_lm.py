"""OpenVINO: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["OptimumLM"]


class OptimumLM(UnsupportedModel):
    """OpenVINO."""

    NAME = "openvino"
