"""Helpers for models on torch and transformers, which are imported when a helper is called."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Literal

from lm_eval._lazy import require

if TYPE_CHECKING:
    import torch

__all__ = [
    "MultiTokenEOSCriteria",
    "clear_torch_cache",
    "get_dtype",
    "pad_and_concat",
    "stop_sequences_criteria",
]


def pad_and_concat(
    max_length: int, tensors: list[torch.Tensor], padding_side: Literal["right", "left"] = "right"
) -> torch.Tensor:
    """Return rows of tokens as one tensor, padded with zeros to `max_length`."""
    torch = require("torch", "`pad_and_concat`")
    if padding_side not in ("left", "right"):
        raise AssertionError(f"`padding_side` must be left or right, not {padding_side!r}")
    rows = [row.squeeze(0) if row.dim() == 2 else row for row in tensors]
    padded = torch.zeros(len(rows), max_length, dtype=rows[0].dtype, device=rows[0].device)
    for target, row in zip(padded, rows, strict=True):
        start = 0 if padding_side == "right" else max_length - len(row)
        target[start : start + len(row)] = row
    return padded


def clear_torch_cache() -> None:
    """Return torch's unused memory to the device."""
    torch = require("torch", "`clear_torch_cache`")
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def get_dtype(dtype: str | torch.dtype | None) -> Any:
    """Return the type of a name such as `bfloat16`; `auto` and types are returned unchanged."""
    if not isinstance(dtype, str) or dtype == "auto":
        return dtype
    torch = require("torch", "A data type")
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise AttributeError(f"`{dtype}` is not a data type of torch")
    return found


class MultiTokenEOSCriteria:
    """Reports which sequences of a batch contain a string, however it is tokenized.

    Only the last tokens are decoded: as many as the string has, and two more that may merge with its edges.
    """

    def __init__(
        self, sequence: str, tokenizer: Any, initial_decoder_input_length: int, batch_size: int
    ) -> None:
        self.sequence = sequence
        self.sequence_ids = tokenizer.encode(sequence, add_special_tokens=False)
        self.sequence_id_len = len(self.sequence_ids) + 2
        self.initial_decoder_input_length = initial_decoder_input_length
        self.tokenizer = tokenizer
        self.done_tracker = [False] * batch_size

    def __call__(self, input_ids: torch.Tensor, scores: Any = None, **kwargs: Any) -> torch.Tensor:
        torch = require("torch", "Generation")
        generated = input_ids[:, self.initial_decoder_input_length :][:, -self.sequence_id_len :]
        decoded = self.tokenizer.batch_decode(generated)
        self.done_tracker = [
            done or self.sequence in text for done, text in zip(self.done_tracker, decoded, strict=True)
        ]
        return torch.tensor(self.done_tracker, dtype=torch.bool, device=input_ids.device)


def stop_sequences_criteria(
    tokenizer: Any, stop_sequences: list[str], initial_decoder_input_length: int, batch_size: int
) -> Any:
    """Return criteria that stop each sequence of a batch at the first of the strings."""
    criteria = require("transformers", "Generation").StoppingCriteriaList()
    for sequence in stop_sequences:
        if sequence:
            criteria.append(
                MultiTokenEOSCriteria(sequence, tokenizer, initial_decoder_input_length, batch_size)
            )
    return criteria
