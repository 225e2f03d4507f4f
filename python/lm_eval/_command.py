"""The command line of a script that registers its own models, metrics, filters or scorers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lm_eval._options import OPTIONS, Option

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "value": {"metavar": "VALUE"},
    "number": {"metavar": "VALUE"},
    "values": {"metavar": "VALUE", "nargs": "+"},
    "repeated": {"metavar": "VALUE", "action": "append"},
    "optional": {"metavar": "VALUE", "nargs": "?", "const": True},
    "flag": {"action": "store_true"},
}
"""What argparse is told of each kind of option."""


def run(words: list[str]) -> int:
    """Run a command line that may use names registered in this process; return its exit status."""
    from lm_eval import _distributed, _engine, _patches, _refusals
    from lm_eval.api import registry

    if _patches.changes():
        model = model_of(words)
        _refusals.refuse("command", model)
        if _patches.has_changed("lm_eval.api.registry", "get_model"):
            _use_own_model(model)
    else:
        _refusals.refuse("command")
    if _distributed.is_launched() and _distributed.is_shared(model := model_of(words)):
        _use_own_model(model)
    registered = [f"{kind}/{name}" for kind, names in registry._dump().items() for name in names]
    try:
        return _engine.command(words, registered)
    except _distributed.Finished:
        return 0


def model_of(words: list[str]) -> str | None:
    """Return the name of the model in a command line."""
    if {"-h", "--help"}.intersection(words):
        return None
    model: str | None = parser().parse_known_args(words)[0].model
    return model


def _use_own_model(name: str | None) -> None:
    """Put the class that `get_model` returns, perhaps a script's own one, into the registry."""
    from lm_eval.api import registry

    if name is None:
        raise NotImplementedError(
            "`lm_eval.api.registry.get_model` was changed, but the command line names no model with `--model`: assign to "
            "`lm_eval.api.registry.MODEL_REGISTRY[NAME]`"
        )
    registry.MODEL_REGISTRY[name] = registry.get_model(name)


def parser() -> argparse.ArgumentParser:
    """Return a parser for the options of `lm-eval run`. It validates nothing: the engine does."""
    made = argparse.ArgumentParser(
        prog="lm-eval",
        description="Evaluate a model.",
        epilog="`lm-eval run --help` explains each option.",
    )
    for option in OPTIONS:
        reads: dict[str, Any] = {"type": _number} if option.kind == "number" else {}
        made.add_argument(*_forms(option), **_ARGUMENTS[option.kind], **reads)
    return made


def _number(text: str) -> Any:
    """Return a number; the engine judges anything else."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _forms(option: Option) -> list[str]:
    name, short, _ = option
    dashed = [f"--{name.replace('_', '-')}"] if "_" in name else []
    return [f"--{name}", *dashed, *([short] if short else [])]


def words_of(args: argparse.Namespace) -> list[str]:
    """Return the command line equivalent to a namespace; names that are not options are ignored."""
    return ["run", *_words(vars(args))]


def _words(given: Mapping[str, Any]) -> Iterator[str]:
    for name, _, kind in OPTIONS:
        value = given.get(name)
        if value is None or value is False or value == "":
            continue
        if value is True:
            yield f"--{name}"
        elif isinstance(value, Mapping):
            yield f"--{name}={json.dumps(value)}"
        elif isinstance(value, (list, tuple)):
            if name in ("tasks", "seed"):
                yield f"--{name}={','.join(map(str, value))}"
            elif kind != "values":
                yield from (f"--{name}={item}" for item in value)
            elif value:
                yield from (f"--{name}", *map(str, value))
        else:
            yield f"--{name}={value}"
