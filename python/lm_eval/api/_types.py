"""Names for the types that cross the public interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

if TYPE_CHECKING:
    import datasets

OutputType = Literal["loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice"]
"""What a task asks of a model."""

Doc = dict[str, Any]
"""One document of a data set."""

DataSplit = Union["datasets.Dataset", Sequence[Doc]]
"""The documents of one split."""

Dataset = Union[Mapping[str, DataSplit], "datasets.DatasetDict"]
"""All splits of a data set by name."""

Context = str | list[dict[str, str]]
"""A prompt: text, or the messages of a conversation."""

GenKwargs = dict[str, Any]
"""Settings of a generation, such as `until` and `max_gen_toks`."""

LLArgs = tuple[str, str]
"""Arguments of a log-likelihood request: context and continuation."""

LLOutput = tuple[float, bool]
"""Answer to a log-likelihood request: log-likelihood, and whether greedy decoding gives the continuation."""

GenArgs = tuple[Context, GenKwargs]
"""Arguments of a generation request."""

Completion = str
"""Answer to a generation request."""

Reference = str | list[str] | int | list[int] | None
"""The gold answer of a document."""
