"""Helpers for model classes: ordering and batching, generation settings, lengths, stop sequences."""

from __future__ import annotations

import copy
import fnmatch
import functools
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

if TYPE_CHECKING:
    from lm_eval.models.utils_hf import (
        MultiTokenEOSCriteria,
        clear_torch_cache,
        get_dtype,
        pad_and_concat,
        stop_sequences_criteria,
    )

eval_logger = logging.getLogger(__name__)

T = TypeVar("T")

TOKENIZER_INFINITY = 1000000000000000019884624838656
"""The maximum length that tokenizers of `transformers` report when they have none."""

DEFAULT_MAX_LENGTH = 2048

_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")
_NEED_TORCH = (
    "MultiTokenEOSCriteria",
    "clear_torch_cache",
    "get_dtype",
    "pad_and_concat",
    "stop_sequences_criteria",
)

__all__ = [
    "DEFAULT_MAX_LENGTH",
    "TOKENIZER_INFINITY",
    "Collator",
    "GenKwargs",
    "Grouper",
    "MultiChoice",
    "MultiTokenEOSCriteria",
    "chunks",
    "clear_torch_cache",
    "configure_pad_token",
    "flatten_image_list",
    "get_dtype",
    "handle_stop_sequences",
    "has_bos_prefix",
    "maybe_truncate",
    "normalize_gen_kwargs",
    "pad_and_concat",
    "postprocess_generated_text",
    "replace_placeholders",
    "resize_image",
    "resolve_max_length",
    "retry_on_specific_exceptions",
    "stop_sequences_criteria",
    "truncate_tokens",
    "undistribute",
]


@functools.lru_cache(maxsize=256)
def warn_once(message: str) -> None:
    """Warn once about something that may happen with every request."""
    eval_logger.warning(message)


def __getattr__(name: str) -> Any:
    """Import names that need torch on first use."""
    if name in _NEED_TORCH:
        from lm_eval.models import utils_hf

        return getattr(utils_hf, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GenKwargs(TypedDict, total=False):
    """Generation settings after `normalize_gen_kwargs`; other keys are for the model."""

    do_sample: bool
    temperature: float
    max_gen_toks: int
    until: list[str]


def chunks(
    _iter: Iterable[T], n: int = 0, fn: Callable[[int, Sequence[T]], int] | None = None
) -> Iterator[list[T]]:
    """Split elements into consecutive lists.

    Every list has `n` elements, the last one perhaps fewer; without a positive `n` there is a single list. If `fn` is
    given, `n` does not matter: `fn(index, elements)` is called for each element, and the list that the element belongs
    to ends there if it has exactly as many elements as the function says. The last list ends in any case. Lists are
    made as they are asked for, and never empty.
    """
    if fn is None:
        rest, size = iter(_iter), n if n > 0 else None
        while taken := list(itertools.islice(rest, size)):
            yield taken
        return
    elements = list(_iter)
    for start, end in itertools.pairwise(_boundaries(elements, fn)):
        yield elements[start:end]


def _boundaries(elements: Sequence[T], fn: Callable[[int, Sequence[T]], int]) -> Iterator[int]:
    """Yield the index at which each list of `chunks` begins, and that at which the last one ends."""
    begin, total = 0, len(elements)
    yield begin
    for index in range(total):
        if fn(index, elements) == index + 1 - begin or index + 1 == total:
            begin = index + 1
            yield begin


class MultiChoice:
    """The allowed values of an option; patterns and comma-separated lists are checked element by element."""

    def __init__(self, choices: Iterable[str]) -> None:
        self.choices = list(choices)

    def __contains__(self, values: str) -> bool:
        for value in values.split(","):
            if not fnmatch.filter(self.choices, value):
                raise ValueError(f"`{value}` is not one of {', '.join(self.choices)}")
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.choices)


class Grouper:
    """Groups elements by key, and restores the original order of the groups' results."""

    def __init__(self, arr: Sequence[Any], fn: Callable[[Any], Any]) -> None:
        self.size = len(arr)
        self._positions: dict[Any, list[int]] = {}
        for position, element in enumerate(arr):
            self._positions.setdefault(fn(element), []).append(position)
        self._grouped = {key: [arr[index] for index in indices] for key, indices in self._positions.items()}

    def get_grouped(self) -> dict[Any, list[Any]]:
        """Return the elements of each key."""
        return self._grouped

    def get_original(self, grouped_dict: dict[Any, Sequence[T]]) -> list[T]:
        """Return the results of all groups in the order of the elements."""
        original: list[Any] = [None] * self.size
        for key, results in grouped_dict.items():
            for index, result in zip(self._positions[key], results, strict=True):
                original[index] = result
        return original


def undistribute(iterable: Iterable[Iterable[T]]) -> list[T]:
    """Return the elements of several lists, taken in turn."""
    missing = object()
    turns = itertools.zip_longest(*iterable, fillvalue=missing)
    return [element for turn in turns for element in turn if element is not missing]  # type: ignore[misc]


def retry_on_specific_exceptions(
    on_exceptions: list[type[Exception]],
    max_retries: int | None = None,
    backoff_time: float = 3.0,
    backoff_multiplier: float = 1.5,
    on_exception_callback: Callable[[Exception, float], Any] | None = None,
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator that retries a function after these exceptions; the last one is raised."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> T:
            pause = backoff_time
            for attempt in itertools.count(1):
                try:
                    return function(*args, **kwargs)
                except tuple(on_exceptions) as error:
                    if on_exception_callback is not None:
                        on_exception_callback(error, pause)
                    if attempt == max_retries:
                        raise
                    time.sleep(pause)
                    pause *= backoff_multiplier
            raise AssertionError("unreachable")

        return call

    return decorate


class Collator:
    """Sorts and batches requests, and restores the original order of the answers.

    `group_by="gen_kwargs"` keeps requests with different generation settings apart. `group_by="contexts"` keeps one
    of the requests with the same key; `get_cache` applies its answer to the others.
    """

    def __init__(
        self,
        arr: Sequence[Any],
        sort_fn: Callable[[Any], Any] = lambda element: element,
        group_fn: Callable[[Any], Any] = lambda element: element[1],
        group_by: Literal["gen_kwargs", "contexts"] | None = None,
    ) -> None:
        self._sort_fn = sort_fn
        self._group_by = group_by
        self._size = len(arr)
        numbered = list(enumerate(arr))
        if group_by is None:
            self._groups: dict[Any, list[tuple[int, Any]]] = {None: numbered}
        else:
            self._groups = self.group(numbered, lambda pair: group_fn(pair[1]), group_by)
        self._keys = {position: key for key, members in self._groups.items() for position, _ in members}
        self._order: list[int] = []

    @staticmethod
    def group(
        arr: Iterable[Any],
        fn: Callable[[Any], Any],
        group_by: Literal["gen_kwargs", "contexts"] = "gen_kwargs",
    ) -> dict[Any, list[Any]]:
        """Return the elements by key."""
        groups: dict[Any, list[Any]] = {}
        for element in arr:
            key = fn(element)
            groups.setdefault(tuple(key) if group_by == "contexts" else _settings_key(key), []).append(
                element
            )
        return groups

    @staticmethod
    def get_chunks(
        _iter: Iterable[T], n: int = 0, fn: Callable[[int, Iterable[T]], int] | None = None
    ) -> Iterator[list[T]]:
        """Yield batches, as `chunks` does."""
        return chunks(_iter, n, fn)

    def get_batched(
        self, n: int = 1, batch_fn: Callable[[int, Iterable[Any]], int] | None = None
    ) -> Iterator[list[Any]]:
        """Yield the requests in batches; no batch mixes groups of generation settings."""
        if self._group_by == "contexts":
            # The longest continuation of a group; the others read their part of its answer.
            firsts = [max(members, key=lambda pair: len(pair[1][-1])) for members in self._groups.values()]
            runs = [firsts]
        else:
            runs = list(self._groups.values())
        for run in runs:
            ordered = sorted(run, key=lambda pair: self._sort_fn(pair[1]))
            if self._group_by != "contexts":
                self._order += [position for position, _ in ordered]
            yield from chunks([element for _, element in ordered], n, batch_fn)

    def get_cache(
        self, req_str: tuple[str, str], cxt_toks: list[int], cont_toks: list[int], logits: Any
    ) -> Iterator[tuple[tuple[str, str], list[int], Any]]:
        """Yield `(strings, continuation tokens, logits)` for each request that these logits answer."""
        if self._group_by != "contexts":
            yield req_str, cont_toks, logits
            return
        for position, (strings, _, continuation) in self._groups[tuple(cxt_toks + cont_toks[:-1])]:
            self._order.append(position)
            # A shorter continuation is predicted by the last positions.
            is_shorter = len(continuation) < len(cont_toks)
            yield strings, continuation, logits[:, -len(continuation) :] if is_shorter else logits

    def get_original(self, newarr: Sequence[T]) -> list[T]:
        """Return answers, given in batch order, in the order of the requests."""
        original: list[Any] = [None] * self._size
        for position, answer in zip(self._order, newarr, strict=True):
            original[position] = answer
        if len(self._order) != self._size:
            raise ValueError(f"There are {len(self._order)} answers to {self._size} requests")
        return original

    def __len__(self) -> int:
        return self._size


def _settings_key(settings: Any) -> Any:
    """Return generation settings as a hashable key."""
    if isinstance(settings, dict):
        return tuple(sorted((str(key), _settings_key(value)) for key, value in settings.items()))
    if isinstance(settings, (list, tuple, set)):
        return ("list", *map(_settings_key, settings))
    return repr(settings)


def configure_pad_token(tokenizer: Any, model_config: Any = None) -> Any:
    """Set the padding token of a tokenizer without one: its unknown token, its end-of-text token, or a new one."""
    if getattr(tokenizer, "pad_token", None):
        return tokenizer
    substitute = next((name for name in ("unk_token", "eos_token") if getattr(tokenizer, name, None)), None)
    if substitute is not None:
        tokenizer.pad_token_id = getattr(tokenizer, f"{substitute}_id")
    elif getattr(model_config, "model_type", None) == "qwen":
        tokenizer.pad_token = "<|endoftext|>"
    elif type(tokenizer).__name__.startswith(("RWKVWorldTokenizer", "Rwkv5Tokenizer")):
        if tokenizer.pad_token_id != 0:
            raise ValueError(f"The padding token of a {type(tokenizer).__name__} must be 0")
    else:
        tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    return tokenizer


def resolve_max_length(config: Any, tokenizer: Any = None, *, default: int = DEFAULT_MAX_LENGTH) -> int:
    """Return a model's maximum length: from its text model, its tokenizer, or the default."""
    for source in (getattr(config, "text_config", None), config):
        for name in _LENGTHS:
            length = getattr(source, name, None)
            if length is not None:
                return int(length)
    length = getattr(tokenizer, "model_max_length", None)
    return default if length is None or length == TOKENIZER_INFINITY else int(length)


def replace_placeholders(string: str, default_placeholder: str, image_token: str, max_images: int) -> str:
    """Return a prompt with the first `max_images` images replaced by the model's image token."""
    return string.replace(default_placeholder, image_token, max(max_images, 0))


def flatten_image_list(images: list[list[T]]) -> list[T]:
    """Return the images of all prompts in one list."""
    return list(itertools.chain.from_iterable(images))


def handle_stop_sequences(until: str | list[str] | None, eos: str | None) -> list[str]:
    """Return the stop sequences, including the end-of-text token."""
    strings = [until] if isinstance(until, str) else [] if until is None else until
    if not isinstance(strings, list):
        raise ValueError(f"`until` must be a string or a list of strings, not {until!r}")
    return strings if eos is None or eos in strings else [*strings, eos]


def normalize_gen_kwargs(gen_kwargs: dict[str, Any], default_max_gen_toks: int = 256) -> GenKwargs:
    """Normalise generation settings: `do_sample`, `until` as a list, and `max_gen_toks` as the only limit."""
    settings = copy.deepcopy(dict(gen_kwargs))
    until = settings.get("until", [])
    settings["until"] = until if isinstance(until, list) else [until]
    limits = {name: settings.pop(name) for name in _LIMITS if name in settings}
    if len(limits) > 1:
        warn_once(f"Several token limits given, using `{next(iter(limits))}`: {limits}")
    settings["max_gen_toks"] = int(next(iter(limits.values()), default_max_gen_toks))
    temperature = float(settings.get("temperature", 0.0))
    # A caller who turns sampling off wants greedy decoding, whatever the server's default temperature is.
    is_explicit = "do_sample" in settings
    if not is_explicit:
        settings["do_sample"] = temperature > 0
    if not settings["do_sample"] and (is_explicit or "temperature" in settings):
        if temperature:
            warn_once(f"`do_sample` is off: temperature {temperature} has no effect")
        settings["temperature"] = 0.0
    return settings  # type: ignore[return-value]


def resize_image(
    image: Any,
    width: int | None = None,
    height: int | None = None,
    max_dimension: int | None = None,
    keep_aspect_ratio: bool = True,
    resample_filter: int | None = None,
    min_width: int = 1,
    min_height: int = 1,
) -> Any:
    """Make a PIL image smaller: to a width and a height, or to at most `max_dimension`. It is never enlarged."""
    old_width, old_height = image.size
    if width is not None and height is not None:
        if old_width <= width and old_height <= height:
            return image
        ratio = min(width / old_width, height / old_height)
        size = (int(old_width * ratio), int(old_height * ratio)) if keep_aspect_ratio else (width, height)
    elif width is None and height is None and (max_dimension is None or max(image.size) <= max_dimension):
        return image
    elif width is not None or (height is None and old_width > old_height):
        wanted = width if width is not None else max_dimension
        assert wanted is not None
        if old_width <= wanted:
            return image
        # Reference: divided first, so that rounding is the same.
        size = (wanted, int(old_height / old_width * wanted))
    else:
        wanted = height if height is not None else max_dimension
        assert wanted is not None
        if old_height <= wanted:
            return image
        size = (int(old_width / old_height * wanted), wanted)
    return image.resize((max(size[0], min_width), max(size[1], min_height)), resample_filter)


def truncate_tokens(
    tokens: list[int], max_length: int, side: Literal["left", "middle", "right"] = "left"
) -> list[int]:
    """Truncate to at most `max_length` tokens; `side` is where tokens are dropped."""
    surplus = len(tokens) - max_length
    if side not in ("left", "middle", "right"):
        raise ValueError(f"`side` must be left, middle or right, not {side!r}")
    if surplus <= 0:
        return tokens
    if side == "left":
        return tokens[surplus:]
    if side == "right":
        return tokens[:max_length]
    head = max_length // 2
    return tokens[:head] + tokens[head + surplus :]


def maybe_truncate(
    tokens: list[int],
    max_gen_toks: int,
    max_model_len: int,
    min_gen_toks: int = 1,
    side: Literal["left", "middle", "right"] = "left",
    shrink_gen_toks: bool = False,
    verbose: bool = True,
) -> tuple[list[int], int]:
    """Return a prompt and a generation limit that fit into a model together.

    The prompt is truncated; with `shrink_gen_toks` the limit is lowered first, down to `min_gen_toks`.
    """
    if len(tokens) + max_gen_toks <= max_model_len:
        return tokens, max_gen_toks
    if shrink_gen_toks:
        max_gen_toks = min(max_gen_toks, max(max_model_len - len(tokens), min_gen_toks))
    room = max_model_len - max_gen_toks
    if room <= 0:
        raise ValueError(
            f"{max_gen_toks} new tokens leave no room for a prompt in a model of {max_model_len} tokens"
        )
    if verbose and len(tokens) > room:
        eval_logger.warning("A prompt of %d tokens is truncated to %d", len(tokens), room)
    return truncate_tokens(tokens, room, side), max_gen_toks


def postprocess_generated_text(
    generation: str, stop: list[str] | str | None, think_end_token: str | None
) -> str:
    """Remove the reasoning from an answer, and cut it at the first stop sequence."""
    if think_end_token:
        generation = generation.rpartition(think_end_token)[2].lstrip()
    for text in [stop] if isinstance(stop, str) else stop or []:
        if text:
            generation = generation.partition(text)[0]
    return generation


def has_bos_prefix(sequence: str, bos_str: str | Iterable[str | None] | None = None) -> bool:
    """Whether a string begins with one of the beginning-of-sequence tokens."""
    if bos_str is None:
        return False
    prefixes = (bos_str,) if isinstance(bos_str, str) else tuple(text for text in bos_str if text is not None)
    return sequence.startswith(prefixes)


def _add_special_kwargs(add_special_tokens: bool | None, add_bos: bool | None = None) -> dict[str, bool]:
    """Return a tokenizer argument: the given value, otherwise the model's setting, otherwise nothing."""
    wanted = add_bos if add_special_tokens is None else add_special_tokens
    return {} if wanted is None else {"add_special_tokens": wanted}
