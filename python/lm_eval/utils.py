"""Helpers that tasks and models import."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import hashlib
import importlib.util
import inspect
import io
import json
import logging
import os
import random
import re
import string as string_module
import textwrap
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, TypeVar

from lm_eval._logging import info_once, maybe_warn, setup_logging, warning_once
from lm_eval._result_files import (
    get_file_datetime,
    get_file_task_name,
    get_latest_filename,
    get_results_filenames,
    get_sample_results_filenames,
)

T = TypeVar("T")

HIGHER_IS_BETTER_SYMBOLS = {True: "↑", False: "↓"}
SPACING = " " * 47

eval_logger = logging.getLogger("lm_eval")

__all__ = [
    "HIGHER_IS_BETTER_SYMBOLS",
    "SPACING",
    "EnhancedJSONEncoder",
    "Reorderer",
    "apply_template",
    "convert_bytes_to_hash",
    "convert_pil_to_hash",
    "create_iterator",
    "escaped_split",
    "eval_logger",
    "general_detokenize",
    "get_file_datetime",
    "get_file_task_name",
    "get_latest_filename",
    "get_results_filenames",
    "get_rolling_token_windows",
    "get_sample_results_filenames",
    "group",
    "handle_arg_string",
    "handle_non_serializable",
    "hash_dict_images",
    "hash_string",
    "ignore_constructor",
    "import_function",
    "info_once",
    "is_torch_available",
    "is_transformers_available",
    "join_iters",
    "logging",
    "make_disjoint_window",
    "make_table",
    "maybe_warn",
    "pattern_match",
    "positional_deprecated",
    "random_name_id",
    "regex_replace",
    "sanitize_list",
    "sanitize_model_name",
    "sanitize_task_name",
    "set_torch_seed",
    "setup_logging",
    "simple_parse_args_string",
    "softmax",
    "warning_once",
    "weighted_f1_score",
    "wrap_text",
]


def __getattr__(name: str) -> Any:
    """Load names that need more than the standard library, or large parts of it, on first use."""
    if name in ("RemoteTokenizer", "check_remote_tokenizer_support"):
        from lm_eval import _remote_tokenizer

        return getattr(_remote_tokenizer, name)
    if name == "env":
        from lm_eval._host import template_environment

        return template_environment()
    if name == "load_yaml_config":
        from lm_eval.tasks._yaml_loader import load_yaml_config

        return load_yaml_config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def general_detokenize(string: str) -> str:
    """Return tokenized English text with the spaces around punctuation removed."""
    for closing in ("n't", ")"):
        string = string.replace(f" {closing}", closing)
    for opening in ("(", '"'):
        string = string.replace(f"{opening} ", opening)
    for closing in ('"', "'", ".", ","):
        string = string.replace(f" {closing}", closing)
    return string


def weighted_f1_score(items: Sequence[tuple[Any, Any]]) -> float:
    """Return the mean of the labels' F1 scores over `(gold, prediction)` pairs, weighted by gold counts."""
    from lm_eval.api.metrics._numeric import pairwise_sum

    golds, predictions = zip(*items)
    gold_counts, predicted_counts = Counter(golds), Counter(predictions)
    right = Counter(gold for gold, predicted in zip(golds, predictions) if gold == predicted)
    labels = sorted({*gold_counts, *predicted_counts})
    weighted = [
        2.0 * right[label] / (gold_counts[label] + predicted_counts[label]) * gold_counts[label]
        for label in labels
    ]
    return pairwise_sum(weighted) / len(golds)


def softmax(x: Sequence[float]) -> Any:
    """Return the softmax of scores."""
    from lm_eval.api.metrics import _numeric

    return _numeric.array(_numeric.softmax(_numeric.floats(x)))


def handle_arg_string(arg: str) -> Any:
    """Parse an argument as a bool, number, string or `None`."""
    arg = arg.strip()
    if len(arg) > 1 and arg[0] == arg[-1] and arg[0] in "'\"":
        return arg[1:-1]
    known: dict[str, Any] = {"true": True, "false": False, "none": None}
    if arg.lower() in known:
        return known[arg.lower()]
    if re.fullmatch(r"[+-]?\d+", arg):
        return int(arg)
    try:
        return float(arg)
    except ValueError:
        return arg


def simple_parse_args_string(args_string: str | None) -> dict[str, Any]:
    """Parse arguments written as `key=value,other=1`."""
    pieces = [piece for piece in (args_string or "").strip().split(",") if piece]
    split = [piece.partition("=") for piece in pieces]
    return {key: handle_arg_string(value) for key, _, value in split}


def handle_non_serializable(o: Any) -> Any:
    """Return a form of an object that JSON can represent."""
    if type(o).__module__ == "numpy" and getattr(o, "shape", None) == ():
        return o.item()
    return list(o) if isinstance(o, set) else str(o)


class EnhancedJSONEncoder(json.JSONEncoder):
    """Encodes dataclass objects as dictionaries."""

    def default(self, o: Any) -> Any:
        """Return a form of an object that JSON can represent."""
        if dataclasses.is_dataclass(o) and not isinstance(o, type):
            return dataclasses.asdict(o)
        return super().default(o)


def escaped_split(text: str, sep_char: str, maxsplit: int = -1) -> list[str] | str:
    """Split a string at separators that are not escaped by a backslash; `maxsplit=0` returns it whole."""
    if len(sep_char) != 1:
        raise AssertionError(f"`sep_char` must be one character, not {sep_char!r}")
    if maxsplit == 0:
        return text
    return re.split(r"(?<!\\)" + re.escape(sep_char), text, maxsplit=max(0, maxsplit))


def wrap_text(string: str, width: int = 140, **kwargs: Any) -> str:
    """Wrap a string to a width, with all lines but the first indented."""
    text = inspect.cleandoc(string)
    return textwrap.fill(text, width=width, subsequent_indent=" " * 8, break_long_words=False, **kwargs)


def positional_deprecated(fn: Callable[..., T]) -> Callable[..., T]:
    """Warn with a `DeprecationWarning` when a function is called with positional arguments."""

    own = 1 if next(iter(inspect.signature(fn).parameters), None) in ("self", "cls") else 0

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> T:
        if len(args) > own:
            warnings.warn(
                f"`{fn.__name__}` should be called with keyword arguments", DeprecationWarning, stacklevel=2
            )
        return fn(*args, **kwargs)

    return called


def ignore_constructor(loader: Any, node: Any) -> None:
    """Return nothing for a YAML node; for PyYAML."""


def import_function(loader: Any, node: Any, yaml_path: str | os.PathLike[str]) -> Any:
    """Return the function of `!function module.name` in a YAML file; for PyYAML."""
    from lm_eval._live import TaskFunction

    reference = loader.construct_scalar(node)
    return TaskFunction(os.path.dirname(os.path.abspath(yaml_path)), reference).resolve()


def is_torch_available() -> bool:
    """Return whether the package `torch` is installed."""
    return importlib.util.find_spec("torch") is not None


def is_transformers_available() -> bool:
    """Return whether the package `transformers` is installed."""
    return importlib.util.find_spec("transformers") is not None


def set_torch_seed(seed: int) -> None:
    """Seed the generators of `torch`, where that is installed."""
    if is_torch_available():
        import torch

        torch.manual_seed(seed)


def random_name_id() -> str:
    """Return eight random letters and digits."""
    return "".join(random.choices(string_module.ascii_lowercase + string_module.digits, k=8))


def convert_bytes_to_hash(value: bytes) -> str:
    """Return the hash that replaces bytes in samples."""
    return hash_string(str(value))


def convert_pil_to_hash(value: Any) -> str:
    """Return the hash that replaces an image in samples."""
    buffer = io.BytesIO()
    value.save(buffer, format="PNG")
    return convert_bytes_to_hash(buffer.getvalue())


def hash_dict_images(data_dict: Any) -> Any:
    """Return nested values with images replaced by hashes."""
    if isinstance(data_dict, dict):
        return {key: hash_dict_images(value) for key, value in data_dict.items()}
    if isinstance(data_dict, (list, tuple)):
        return type(data_dict)(hash_dict_images(value) for value in data_dict)
    if type(data_dict).__module__.startswith("PIL."):
        return convert_pil_to_hash(data_dict)
    return data_dict


def make_table(
    result_dict: dict[str, Any], column: str = "results", sort_results: bool = False, latex: bool = False
) -> str:
    """Return a table of results in Markdown or LaTeX; `column` is `results` or `groups`."""
    from lm_eval import _engine

    needed = (column, "versions", "n-shot", "higher_is_better", "group_subtasks")
    parts = {name: result_dict[name] for name in needed if name in result_dict}
    table: str = _engine.call("table", results=parts, column=column, sort=sort_results, latex=latex)
    return table


def sanitize_list(sub: Any) -> Any:
    """Return nested lists with every element as a string."""
    if isinstance(sub, (list, tuple)):
        return type(sub)(sanitize_list(item) for item in sub)
    return str(sub)


_NOT_IN_FILE_NAMES = '"*/:<>?[\\]|'
"""Brackets, and characters that are not allowed in file names on every system."""


def sanitize_model_name(model_name: str) -> str:
    """Return the name of a model as part of a file name."""
    return re.sub(f"[{re.escape(_NOT_IN_FILE_NAMES)}]+", "__", model_name)


def sanitize_task_name(task_name: str) -> str:
    """Return the name of a task as part of a file name."""
    return re.sub(r"\W", "_", task_name)


def hash_string(string: str) -> str:
    """Return the SHA-256 of a string, as hexadecimal digits."""
    return hashlib.sha256(string.encode("utf-8")).hexdigest()


def join_iters(iters: Iterable[Iterable[T]]) -> Iterator[T]:
    """Yield the elements of all iterables."""
    for iterable in iters:
        yield from iterable


def group(arr: Iterable[T], fn: Callable[[T], Any]) -> list[list[T]]:
    """Return the elements in groups of equal keys."""
    groups: dict[Any, list[T]] = defaultdict(list)
    for element in arr:
        groups[fn(element)].append(element)
    return list(groups.values())


def pattern_match(patterns: str | Iterable[str], source_list: Iterable[str]) -> list[str]:
    """Return the names that match one of the patterns, sorted."""
    names = list(source_list)
    wanted = [patterns] if isinstance(patterns, str) else patterns
    return sorted({name for pattern in wanted for name in fnmatch.filter(names, pattern)})


def regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    """Replace a pattern in a string."""
    return re.sub(pattern, repl, string, count=count)


def apply_template(template: str, doc: dict[str, Any]) -> str:
    """Render a template with the fields of a document."""
    from lm_eval._host import render_template

    return render_template(template, doc)


def create_iterator(
    raw_iterator: Iterable[T], *, rank: int = 0, world_size: int = 1, limit: int | None = None
) -> Iterator[T]:
    """Return this process's share of the first `limit` elements."""
    return islice(raw_iterator, rank, limit, world_size)


def get_rolling_token_windows(
    token_list: list[int], prefix_token: int, max_seq_len: int, context_len: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield `(input, predicted)` tokens of windows that together predict every token once.

    Each window but the first sees at least `context_len` tokens before those that it predicts.
    """
    if not 1 <= context_len <= max_seq_len:
        raise AssertionError(f"`context_len` must be between 1 and {max_seq_len}")
    # The first window predicts as much as it can hold, later ones only new tokens; all are filled from the left.
    before = [prefix_token, *token_list]
    starts = range(max_seq_len, len(token_list), max_seq_len - context_len + 1)
    edges = [0, *starts, len(token_list)] if token_list else []
    for start, end in pairwise(edges):
        yield before[max(0, end - max_seq_len) : end], token_list[start:end]


def make_disjoint_window(pair: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
    """Remove the predicted tokens from the input of a rolling window."""
    context, continuation = pair
    return context[: len(context) - (len(continuation) - 1)], continuation


class Reorderer:
    """Sorts elements by a key, and restores the original order of results."""

    def __init__(self, arr: Sequence[Any], fn: Callable[[Any], Any]) -> None:
        self.size = len(arr)
        self.arr = sorted(enumerate(arr), key=lambda element: fn(element[1]))

    def get_reordered(self) -> list[Any]:
        """Return the elements, sorted."""
        return [element for _, element in self.arr]

    def get_original(self, newarr: Sequence[T]) -> list[T]:
        """Return results for the sorted elements in the original order."""
        original: list[Any] = [None] * self.size
        for (position, _), result in zip(self.arr, newarr, strict=True):
            original[position] = result
        return original
