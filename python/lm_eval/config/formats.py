"""Prompt formats: several ways to ask the same question.

The engine has the strings of the built-in formats and makes templates from them; a custom format is a subclass with
other strings::

    class Terse(MCQAFormat):
        format_name = "terse"
        question_prefix = None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

__all__ = ["COTGenFormat", "ClozeFormat", "FormatConfig", "GenerateFormat", "MCQAFormat"]


class _Unset:
    def __repr__(self) -> str:
        return "<inherited>"


_UNSET: Any = _Unset()


@dataclass(kw_only=True)
class FormatConfig:
    """The parts of a prompt. Unset parts are those of the built-in format that the class derives from."""

    format_name: ClassVar[str | None] = None
    _registry: ClassVar[dict[str, type[FormatConfig]]] = {}
    _built_in: ClassVar[str] = "mcqa"

    output_type: str = _UNSET
    instruction: str | None = _UNSET
    question_prefix: str | None = _UNSET
    choice_labels: str | list[str] | None = _UNSET
    choice_delimiter: str = _UNSET
    section_separator: str = _UNSET
    answer_instruction: str | None = _UNSET
    answer_prompt: str | None = _UNSET
    gen_prefix: str | None = _UNSET
    target_delimiter: str = _UNSET
    fewshot_delimiter: str = _UNSET
    scorer: str | dict[str, Any] | None = _UNSET

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__dict__.get("format_name")
        if name is not None:
            cls._registry[name] = cls

    def __post_init__(self) -> None:
        for name, value in self._pieces().items():
            if value is _UNSET:
                # A subclass need not be a dataclass to set its own strings.
                setattr(self, name, getattr(type(self), name))
        unset = [name for name, value in self._pieces().items() if value is _UNSET]
        if unset:
            built_in = _engine_format(self._built_in)["format"]
            for name in unset:
                setattr(self, name, built_in[name])

    def _pieces(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(FormatConfig)}

    @property
    def answer_format(self) -> str:
        """How the target of a generation is written: `letters`, `numbers` or `full_text`."""
        return self.choice_labels if self.choice_labels in ("letters", "numbers") else "full_text"

    @classmethod
    def get(cls, spec: Any, *, selection: str | None = None) -> FormatConfig | None:
        """Return the format of a task's `formats`, with the one that the caller selects.

        `spec` is a name, a mapping with `type`, a table of formats by name, or a format.
        """
        if spec is None:
            if selection is None:
                return None
            spec = selection
        if isinstance(spec, FormatConfig):
            return spec
        answer = _engine_format(spec, selection)
        kind = cls._registry.get(_kind_name(spec, answer["name"]), MCQAFormat)
        return kind(**answer["format"])

    @classmethod
    def registered(cls) -> list[str]:
        """Return the names of all formats, sorted."""
        return sorted(cls._registry)

    def to_jinja_config(
        self, doc_to_text: Any = "question", doc_to_choice: Any = "choices", doc_to_target: Any = "answer"
    ) -> dict[str, Any]:
        """Return the templates for a task with these fields."""
        made = self.to_task_config(doc_to_text, doc_to_choice, doc_to_target)
        return {name: made[name] for name in ("doc_to_text", "doc_to_target", "doc_to_choice")}

    def to_task_config(
        self, doc_to_text: Any = "question", doc_to_choice: Any = "choices", doc_to_target: Any = "answer"
    ) -> dict[str, Any]:
        """Return the fields that the format sets in a task with these fields."""
        given = {"doc_to_text": doc_to_text, "doc_to_choice": doc_to_choice, "doc_to_target": doc_to_target}
        made = _fields_set_by(self, None, given)
        if made.get("gen_prefix", "") is None:
            del made["gen_prefix"]
        scorer = made.get("scorer")
        if isinstance(scorer, dict) and list(scorer) == ["type"]:
            made["scorer"] = scorer["type"]
        return made


@dataclass(kw_only=True)
class MCQAFormat(FormatConfig):
    """Shows the choices with labels and compares the labels."""

    format_name: ClassVar[str | None] = "mcqa"


@dataclass(kw_only=True)
class ClozeFormat(MCQAFormat):
    """Compares the choices themselves."""

    format_name: ClassVar[str | None] = "cloze"
    _built_in: ClassVar[str] = "cloze"


@dataclass(kw_only=True)
class GenerateFormat(FormatConfig):
    """Shows the choices with labels; the model writes one."""

    format_name: ClassVar[str | None] = "generate"
    _built_in: ClassVar[str] = "generate"


@dataclass(kw_only=True)
class COTGenFormat(GenerateFormat):
    """The model reasons, then answers in its own words."""

    format_name: ClassVar[str | None] = "cot"
    _built_in: ClassVar[str] = "cot"


_BUILT_IN = ("cloze", "cot", "generate", "mcqa")


def _kind_name(spec: Any, name: str) -> str:
    """Return the registered name of a format that is known by the name of its entry."""
    entry = spec.get(name) if _is_table(spec) else None
    if isinstance(entry, Mapping):
        entry = entry.get("type")
    return entry if isinstance(entry, str) else name


def _fields_set_by(formats: Any, selection: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task fields that the format sets."""
    answer = _engine_format(formats, selection, {"task": "task", **given})
    made: dict[str, Any] = answer["task"]
    return made


def _engine_format(formats: Any, selection: str | None = None, fields: Mapping[str, Any] | None = None) -> Any:
    from lm_eval import _engine

    return _engine.call(
        "format",
        formats=_known(formats, selection),
        selection=None if selection is not None and not _is_table(formats) and _is_own(selection) else selection,
        fields=dict(fields or {}),
    )


def _is_table(formats: Any) -> bool:
    return isinstance(formats, Mapping) and "type" not in formats


def _is_own(name: Any) -> bool:
    return isinstance(name, str) and name in FormatConfig._registry and name not in _BUILT_IN


def _is_foreign(formats: Any, selection: str | None, task: str | None) -> bool:
    """Whether a format is unknown to the engine."""
    entries = list(formats.items()) if _is_table(formats) else [(None, formats)]
    names = [selection, (task or "").partition("@")[2]]
    return any(_entry(name, entry) is not entry for name, entry in entries) or any(map(_is_own, names))


def _known(formats: Any, selection: str | None) -> Any:
    """Return the format as the engine takes it: its parts, if only this process knows it."""
    if _is_table(formats):
        return {name: _entry(name, entry) for name, entry in formats.items()}
    if _is_own(selection):
        formats = selection
    return _entry(None, formats)


def _entry(name: str | None, entry: Any) -> Any:
    if isinstance(entry, FormatConfig):
        return {"type": "mcqa", **entry._pieces()}
    if entry is None and _is_own(name):
        entry = name
    if _is_own(entry):
        return _entry(None, FormatConfig._registry[entry]())
    if isinstance(entry, Mapping) and _is_own(entry.get("type", name)):
        changes = {piece: value for piece, value in entry.items() if piece != "type"}
        return _entry(None, FormatConfig._registry[entry.get("type", name)](**changes))
    return entry
