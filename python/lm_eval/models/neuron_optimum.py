"""AWS Neuron: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["NEURON_HF"]


class NEURON_HF(UnsupportedModel):
    """AWS Neuron."""

    NAME = "neuronx"
