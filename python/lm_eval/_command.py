"""The command line of a script that registers its own models, metrics, filters or scorers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

_SINGLE = {
    "config": "-C",
    "model": "-M",
    "limit": "-L",
    "samples": "-E",
    "shard": "",
    "num_fewshot": "-f",
    "repeats": "-r",
    "batch_size": "-b",
    "max_batch_size": "",
    "device": "",
    "choices": "",
    "system_instruction": "",
    "seed": "",
    "compat": "",
    "bootstrap_iters": "",
    "baseline": "",
    "prices": "",
    "output_path": "-o",
    "use_cache": "-c",
    "max_failures": "",
    "verbosity": "-v",
    "include_path": "",
    "library": "",
    "python": "",
    "plugins": "",
    "format": "",
    "progress": "",
    "color": "",
}
"""Options that take one value, with their short forms."""

_SEVERAL = {
    "tasks": "-t",
    "model_args": "-a",
    "gen_kwargs": "",
    "workers": "",
    "metadata": "",
    "wandb_args": "",
    "wandb_config_args": "",
    "trackio_args": "",
    "hf_hub_log_args": "",
}
"""Options that take one or more values."""

_NUMBERS = ("limit", "num_fewshot", "repeats", "max_batch_size", "bootstrap_iters", "max_failures")
"""Options that a script reads as numbers."""

_REPEATED = ("fail_under", "judge")
"""Options that take one value and may be given several times."""

_OPTIONAL = ("apply_chat_template", "fewshot_as_multiturn", "cache_requests")
"""Options whose value is optional."""

_FLAGS = {
    "log_samples": "-s",
    "write_out": "-w",
    "show_config": "",
    "predict_only": "-x",
    "trust_remote_code": "",
    "confirm_run_unsafe_code": "",
    "check_integrity": "",
    "quiet": "-q",
    "view": "",
    "fresh": "",
}
"""Options without a value."""


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
    for name, short in _SINGLE.items():
        kind = _number if name in _NUMBERS else str
        made.add_argument(*_forms(name, short), default=None, metavar="VALUE", type=kind)
    for name, short in _SEVERAL.items():
        made.add_argument(*_forms(name, short), default=None, metavar="VALUE", nargs="+")
    for name in _REPEATED:
        made.add_argument(*_forms(name, ""), default=None, metavar="VALUE", action="append")
    for name in _OPTIONAL:
        made.add_argument(*_forms(name, ""), default=None, metavar="VALUE", nargs="?", const=True)
    for name, short in _FLAGS.items():
        made.add_argument(*_forms(name, short), action="store_true")
    return made


def _number(text: str) -> Any:
    """Return a number; the engine judges anything else."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _forms(name: str, short: str) -> list[str]:
    dashed = [f"--{name.replace('_', '-')}"] if "_" in name else []
    return [f"--{name}", *dashed, *([short] if short else [])]


def words_of(args: argparse.Namespace) -> list[str]:
    """Return the command line equivalent to a namespace; names that are not options are ignored."""
    return ["run", *_words(vars(args))]


def _words(given: Mapping[str, Any]) -> Iterator[str]:
    for name in (*_SINGLE, *_SEVERAL, *_REPEATED, *_OPTIONAL, *_FLAGS):
        value = given.get(name)
        if value is None or value is False or value == "":
            continue
        if value is True:
            yield f"--{name}"
        elif isinstance(value, Mapping):
            yield f"--{name}={json.dumps(value)}"
        elif isinstance(value, (list, tuple)):
            # Seeds, tasks and folders are joined into one argument; pairs are separate arguments.
            if name in _REPEATED:
                yield from (f"--{name}={item}" for item in value)
            elif name in ("tasks", "seed", "include_path", "plugins"):
                yield f"--{name}={','.join(map(str, value))}"
            elif value:
                yield from (f"--{name}", *map(str, value))
        else:
            yield f"--{name}={value}"
