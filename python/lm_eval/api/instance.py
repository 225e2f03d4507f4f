"""One request to a model, with its answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypedDict, TypeVar

from lm_eval.api._types import Completion, GenArgs, LLArgs, LLOutput, OutputType, Reference

InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")

__all__ = ["AdditionalArgs", "GenInstance", "Instance", "LLInstance", "OutputType"]


class AdditionalArgs(TypedDict, total=False):
    """Images and audio of a request."""

    visual: Any
    audio: Any


@dataclass
class Instance(Generic[InputT, OutputT]):
    """One request made for a document.

    `metadata` may be the tuple `(task_name, doc_id, repeats)` of older code; it is unpacked into the fields.
    """

    request_type: OutputType
    doc: dict[str, Any]
    arguments: InputT
    idx: int = 0
    metadata: Any = field(default_factory=dict)
    resps: list[OutputT] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    task_name: str | None = None
    doc_id: int | None = None
    repeats: int = 1
    target: Reference = None
    additional_args: AdditionalArgs | None = None

    def __post_init__(self) -> None:
        if isinstance(self.metadata, tuple):
            self.task_name, self.doc_id, repeats = self.metadata
            self.repeats = 1 if repeats is None else repeats
            self.metadata = {}
        elif self.metadata is None:
            self.metadata = {}

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, always as a tuple."""
        return self.arguments if isinstance(self.arguments, tuple) else (self.arguments,)


LLInstance = Instance[LLArgs, LLOutput]
"""A request for log-likelihoods."""

GenInstance = Instance[GenArgs, Completion]
"""A generation request."""
