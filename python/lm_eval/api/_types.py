"""Type aliases of the public interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

if TYPE_CHECKING:
    import datasets

OutputType = Literal["loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice"]
"""The kind of request that a task makes."""

Doc = dict[str, Any]
"""One document of a dataset."""

DataSplit = Union["datasets.Dataset", Sequence[Doc]]
"""The documents of one split."""

Dataset = Union[Mapping[str, DataSplit], "datasets.DatasetDict"]
"""All splits of a dataset by name."""

Context = str | list[dict[str, str]]
"""A prompt: a string, or the messages of a conversation."""

GenKwargs = dict[str, Any]
"""Generation settings, such as `until` and `max_gen_toks`."""

LLArgs = tuple[str, str]
"""Arguments of a log-likelihood request: context and continuation."""

LLOutput = tuple[float, bool]
"""Answer to a log-likelihood request: the log-likelihood, and whether greedy decoding yields the continuation."""

GenArgs = tuple[Context, GenKwargs]
"""Arguments of a generation request."""

Completion = str
"""Answer to a generation request."""

Reference = str | list[str] | int | list[int] | None
"""The gold answer of a document."""
