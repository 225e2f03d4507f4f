"""OpenVINO: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["OptimumLM"]


class OptimumLM(Elsewhere):
    """OpenVINO."""

    NAME = "openvino"
