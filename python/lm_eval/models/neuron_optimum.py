"""AWS Neuron: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["NEURON_HF"]


class NEURON_HF(Elsewhere):
    """AWS Neuron."""

    NAME = "neuronx"
