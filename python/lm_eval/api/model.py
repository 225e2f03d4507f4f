"""Base classes of models written in Python."""

from __future__ import annotations

import abc
import hashlib
import json
import logging
import os
import pickle
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lm_eval import utils

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

logger = logging.getLogger(__name__)

LMType = TypeVar("LMType", bound="LM")

__all__ = ["LM", "CacheHook", "CachingLM", "TemplateLM", "hash_args"]


class CacheHook:
    """Receives answers as soon as a model has them, and stores them in a cache if there is one.

    The engine replaces it with a hook that sends answers to its journal.
    """

    def __init__(self, cachinglm: CachingLM | None = None) -> None:
        self.dbdict = None if cachinglm is None else cachinglm.dbdict

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        """Take the answer to one request of the method `attr`."""
        if self.dbdict is not None:
            self.dbdict[hash_args(attr, req)] = res


class LM(abc.ABC):
    """A language model: scores and generates strings.

    Each method receives all requests at once and returns one answer per request, in the same order.
    """

    def __init__(self) -> None:
        self._rank = 0
        self._world_size = 1
        self._device: Any = None
        self.cache_hook = CacheHook(None)

    @abc.abstractmethod
    def loglikelihood(self, requests: list[Instance[Any, Any]]) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(context, continuation)`; a context may be empty."""

    @abc.abstractmethod
    def loglikelihood_rolling(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return the log-likelihood of each entire string, as `(log-likelihood, False)` or a bare number."""

    @abc.abstractmethod
    def generate_until(self, requests: list[Instance[Any, Any]]) -> list[str]:
        """Return the generation for each `(context, settings)`."""

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Any:
        """Render a conversation as a prompt."""
        raise NotImplementedError(f"`{type(self).__name__}` has no `apply_chat_template`")

    @classmethod
    def create_from_arg_string(
        cls: type[LMType], arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> LMType:
        """Make a model from a string such as `key=value,other=1`."""
        return cls.create_from_arg_obj(utils.simple_parse_args_string(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(
        cls: type[LMType], arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None
    ) -> LMType:
        """Make a model from keyword arguments; additional ones that are `None` are ignored."""
        additional = {key: value for key, value in (additional_config or {}).items() if value is not None}
        return cls(**arg_dict, **additional)

    @property
    def device(self) -> Any:
        """The device that the model runs on."""
        return self._device

    @property
    def rank(self) -> int:
        """The rank of this process among those that share the requests."""
        return self._rank

    @property
    def world_size(self) -> int:
        """The number of processes that share the requests."""
        return self._world_size

    def all_gather(self, tensor: Any) -> Any:
        """Gather the tensors of all processes."""
        return tensor

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """Gather the objects of all processes at rank `dst`."""
        return [obj]

    def barrier(self) -> None:
        """Wait for all processes."""

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer or chat template."""
        raise NotImplementedError(f"`{type(self).__name__}` has no `tokenizer_name`")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the source of the chat template; empty by default."""
        return ""

    def set_cache_hook(self, cache_hook: CacheHook) -> None:
        """Send answers to a hook from now on."""
        self.cache_hook = cache_hook

    def _identity(self) -> dict[str, Any]:
        """Return the attributes that identify this object among others of its class.

        Cached answers are reused for an object with equal ones. Keys, devices and batch sizes do not make a different
        model.
        """
        served = {name: value._identity() for name, value in vars(self).items() if hasattr(value, "_identity")}
        return {**plain_attributes(vars(self)), **served}


_NOT_IDENTIFYING = re.compile(
    r"batch|device|header|password|secret|key$|^(\w*auth\w*|hf|access|api)?_?token$"
    r"|^_?(rank|world_size|concurrent|num_concurrent|max_retries|timeout|shares_contexts)$"
)
"""Attributes that vary from run to run, or that must not be recorded."""


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that identify a model, as far as they are plain values."""
    return {
        name: value
        for name, value in attributes.items()
        if not _NOT_IDENTIFYING.search(name) and is_plain(value)
    }


def is_plain(value: Any) -> bool:
    """Whether a value is a string, a number or another plain value, or consists of such values."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str, os.PathLike))


def _digest(value: Any) -> Any:
    """Return a replacement for a value that JSON cannot represent: the hash of its content."""
    if isinstance(value, (bytes, bytearray)):
        return {"__bytes_sha256__": hashlib.sha256(bytes(value)).hexdigest()}
    raise TypeError(f"A value of type `{type(value).__name__}` cannot be part of a cached request")


def hash_args(attr: str, args: Iterable[Any]) -> str:
    """Return the cache key of a request to the method `attr`."""
    return hashlib.sha256(json.dumps([attr, *args], default=_digest).encode("utf-8")).hexdigest()


class _Table:
    """Answers in a SQLite file, by key; each is written as soon as it is stored."""

    def __init__(self, path: str) -> None:
        import sqlite3

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute('CREATE TABLE IF NOT EXISTS "unnamed" (key TEXT PRIMARY KEY, value BLOB)')

    def get(self, key: str) -> Any:
        """Return the answer for a key, or `None`."""
        with self._lock:
            row = self._connection.execute('SELECT value FROM "unnamed" WHERE key = ?', (key,)).fetchone()
        return None if row is None else pickle.loads(row[0])

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __getitem__(self, key: str) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        data = pickle.dumps(value, protocol=5)
        with self._lock:
            self._connection.execute('REPLACE INTO "unnamed" (key, value) VALUES (?, ?)', (key, data))

    def __len__(self) -> int:
        with self._lock:
            return int(self._connection.execute('SELECT COUNT(*) FROM "unnamed"').fetchone()[0])

    def commit(self) -> None:
        """Do nothing: every answer is committed separately."""

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class CachingLM:
    """A model that caches its answers in a SQLite file.

    The engine caches answers in its journal instead; this class is for code that calls models itself.
    """

    def __init__(self, lm: LM, cache_db: str) -> None:
        self.lm, self.cache_db, self.dbdict = lm, cache_db, _Table(cache_db)
        lm.set_cache_hook(self.get_cache_hook())

    def __getattr__(self, attr: str) -> Any:
        if attr == "lm":
            raise AttributeError(attr)
        return getattr(self.lm, attr)

    def loglikelihood(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return the log-likelihoods, from the file where cached."""
        return self._answer("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return the log-likelihoods of entire strings, from the file where cached."""
        return self._answer("loglikelihood_rolling", requests)

    def generate_until(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return the generations, from the file where cached and not sampled."""
        return self._answer("generate_until", requests)

    def _answer(self, attr: str, requests: list[Instance[Any, Any]]) -> list[Any]:
        keys = [hash_args(attr, request.args) for request in requests]
        sampled = [
            attr == "generate_until" and bool(request.args[1].get("do_sample", False)) for request in requests
        ]
        if any(sampled):
            logger.warning("Sampled answers are not read from the cache")
        answers = [None if drawn else self.dbdict.get(key) for key, drawn in zip(keys, sampled, strict=True)]
        missing = [index for index, answer in enumerate(answers) if answer is None]
        if missing:
            made = getattr(self.lm, attr)([requests[index] for index in missing])
            for index, answer in zip(missing, made, strict=True):
                answers[index] = answer
                self.dbdict[keys[index]] = answer
        return answers

    def get_cache_hook(self) -> CacheHook:
        """Return a hook that writes answers to the file."""
        return CacheHook(self)


class TemplateLM(LM):
    """A model with a tokenizer: a subclass scores tokens, this class tokenizes."""

    tokenizer: Any = None
    backend = "causal"

    @property
    @abc.abstractmethod
    def eot_token_id(self) -> int:
        """The end-of-text token."""

    @property
    def prefix_token_id(self) -> int:
        """The token used as an empty context."""
        return self.eot_token_id

    @abc.abstractmethod
    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Tokenize a string."""

    @abc.abstractmethod
    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(strings, context tokens, continuation tokens)`."""

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokenize a context and its continuation; trailing spaces of the context move to the continuation."""
        if not context:
            raise AssertionError("The context is empty")
        stripped = context.rstrip()
        continuation = context[len(stripped) :] + continuation
        context_tokens = self.tok_encode(stripped)
        if self.backend == "causal":
            return context_tokens, self.tok_encode(stripped + continuation)[len(context_tokens) :]
        return context_tokens, self.tok_encode(continuation, add_special_tokens=False)

    def loglikelihood(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(context, continuation)`."""
        pairs = [(context, continuation) for context, continuation in (request.args for request in requests)]
        encoded = [
            (pair, *(self._encode_alone(pair[1]) if pair[0] == "" else self._encode_pair(*pair))) for pair in pairs
        ]
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

    def _encode_alone(self, continuation: str) -> tuple[list[int], list[int]]:
        """Tokenize a continuation that follows only the prefix token, which it may already begin with."""
        tokens = self.tok_encode(continuation, add_special_tokens=False)
        begun = int(tokens[0] == self.prefix_token_id)
        return [self.prefix_token_id], tokens[begun:]

    @abc.abstractmethod
    def loglikelihood_rolling(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[Any]:
        """Return the log-likelihood of each entire string."""

    @abc.abstractmethod
    def generate_until(self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False) -> list[str]:
        """Return the generation for each `(context, settings)`."""

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the source of the tokenizer's template: the named one of several, otherwise the default."""
        if self.tokenizer is None:
            return ""
        if chat_template is False or chat_template is None:
            logger.warning("A chat template was requested with templating switched off")
            return None
        templates = getattr(self.tokenizer, "chat_template", None) or getattr(
            self.tokenizer, "default_chat_template", None
        )
        if not isinstance(templates, dict):
            if isinstance(chat_template, str):
                logger.warning(
                    "The tokenizer has a single chat template; the name `%s` is ignored", chat_template
                )
            return templates
        name = chat_template if isinstance(chat_template, str) else "default"
        if name not in templates:
            raise ValueError(f"There is no chat template `{name}`; the tokenizer has {', '.join(sorted(templates))}")
        return templates[name]
