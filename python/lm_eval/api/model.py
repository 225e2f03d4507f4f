"""Base classes of models that are written in Python."""

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

from lm_eval.utils import simple_parse_args_string

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

logger = logging.getLogger(__name__)

LMType = TypeVar("LMType", bound="LM")

__all__ = ["LM", "CacheHook", "CachingLM", "TemplateLM", "hash_args"]


class CacheHook:
    """Takes answers as soon as a model has them, and puts them into a cache where there is one.

    The engine sets a hook of its own, which sends answers to its journal.
    """

    def __init__(self, cachinglm: CachingLM | None = None) -> None:
        self.dbdict = None if cachinglm is None else cachinglm.dbdict

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        """Take the answer to one request of the method `attr`."""
        if self.dbdict is not None:
            self.dbdict[hash_args(attr, req)] = res


class LM(abc.ABC):
    """A language model: text goes in, text and log-likelihoods come out.

    Each method gets all requests at once and returns one answer per request, in the same order.
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
        """Return the log-likelihood of each whole text, as `(log-likelihood, False)` or a bare number."""

    @abc.abstractmethod
    def generate_until(self, requests: list[Instance[Any, Any]]) -> list[str]:
        """Return the text that the model writes after each `(context, settings)`."""

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Any:
        """Return a conversation as a prompt."""
        raise NotImplementedError(f"`{type(self).__name__}` has no `apply_chat_template`")

    @classmethod
    def create_from_arg_string(
        cls: type[LMType], arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> LMType:
        """Make a model from text such as `key=value,other=1`."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(
        cls: type[LMType], arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None
    ) -> LMType:
        """Make a model from keyword arguments; `None` in the additional ones stands for nothing."""
        additional = {key: value for key, value in (additional_config or {}).items() if value is not None}
        return cls(**arg_dict, **additional)

    @property
    def device(self) -> Any:
        """The device the model runs on."""
        return self._device

    @property
    def rank(self) -> int:
        """The number of this process among all that share the requests."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many processes share the requests."""
        return self._world_size

    def all_gather(self, tensor: Any) -> Any:
        """Return the tensors of all processes."""
        return tensor

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """Return the objects of all processes, in the process `dst`."""
        return [obj]

    def barrier(self) -> None:
        """Wait for all processes."""

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer or chat template."""
        raise NotImplementedError(f"`{type(self).__name__}` has no `tokenizer_name`")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the text of the chat template; there is none by default."""
        return ""

    def set_cache_hook(self, cache_hook: CacheHook) -> None:
        """Send answers to a hook from now on."""
        self.cache_hook = cache_hook

    def _identity(self) -> dict[str, Any]:
        """Return what tells this object from others of its class: its plain attributes.

        Answers are kept for the next object with the same ones. Keys, devices and batch sizes make no other model.
        """
        served = {name: value._identity() for name, value in vars(self).items() if hasattr(value, "_identity")}
        return {**plain_attributes(vars(self)), **served}


_IS_NO_IDENTITY = re.compile(
    r"batch|device|header|password|secret|key$|^(\w*auth\w*|hf|access|api)?_?token$"
    r"|^_?(rank|world_size|concurrent|num_concurrent|max_retries|timeout|shares_contexts)$"
)
"""The names of attributes that change from run to run, or that are nobody else's business."""


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that make a model the one that it is, as far as they are text, numbers and the like."""
    return {
        name: value
        for name, value in attributes.items()
        if not _IS_NO_IDENTITY.search(name) and is_plain(value)
    }


def is_plain(value: Any) -> bool:
    """Whether a value is text, a number or the like, or consists of such values."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str, os.PathLike))


def _digest(value: Any) -> Any:
    """What stands for a value that JSON does not have: the hash of its content."""
    if isinstance(value, (bytes, bytearray)):
        return {"__bytes_sha256__": hashlib.sha256(bytes(value)).hexdigest()}
    raise TypeError(f"A value of type `{type(value).__name__}` cannot be part of a cached request")


def hash_args(attr: str, args: Iterable[Any]) -> str:
    """Return the key of a request to the method `attr` in a cache."""
    return hashlib.sha256(json.dumps([attr, *args], default=_digest).encode("utf-8")).hexdigest()


class _Table:
    """Answers in a SQLite file, by their keys; each is in the file as soon as it is stored."""

    def __init__(self, path: str) -> None:
        import sqlite3

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute('CREATE TABLE IF NOT EXISTS "unnamed" (key TEXT PRIMARY KEY, value BLOB)')

    def get(self, key: str) -> Any:
        """Return the answer of a key, or `None`."""
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
        """Do nothing: every answer is committed by itself."""

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


class CachingLM:
    """A model whose answers are kept in a SQLite file and asked for only once.

    Runs of the engine keep answers in a journal instead; this class is for code that calls models itself.
    """

    def __init__(self, lm: LM, cache_db: str) -> None:
        self.lm, self.cache_db, self.dbdict = lm, cache_db, _Table(cache_db)
        lm.set_cache_hook(self.get_cache_hook())

    def __getattr__(self, attr: str) -> Any:
        if attr == "lm":
            raise AttributeError(attr)
        return getattr(self.lm, attr)

    def loglikelihood(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return the log-likelihoods, from the file as far as they are there."""
        return self._answer("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return the log-likelihoods of whole texts, from the file as far as they are there."""
        return self._answer("loglikelihood_rolling", requests)

    def generate_until(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return the texts, from the file as far as they are there and not drawn at random."""
        return self._answer("generate_until", requests)

    def _answer(self, attr: str, requests: list[Instance[Any, Any]]) -> list[Any]:
        keys = [hash_args(attr, request.args) for request in requests]
        sampled = [
            attr == "generate_until" and bool(request.args[1].get("do_sample", False)) for request in requests
        ]
        if any(sampled):
            logger.warning("Answers that are drawn at random are not taken from the cache")
        answers = [None if drawn else self.dbdict.get(key) for key, drawn in zip(keys, sampled, strict=True)]
        missing = [place for place, answer in enumerate(answers) if answer is None]
        if missing:
            made = getattr(self.lm, attr)([requests[place] for place in missing])
            for place, answer in zip(missing, made, strict=True):
                answers[place] = answer
                self.dbdict[keys[place]] = answer
        return answers

    def get_cache_hook(self) -> CacheHook:
        """Return a hook that puts answers into the file."""
        return CacheHook(self)


class TemplateLM(LM):
    """A model with a tokenizer of its own: a subclass scores tokens, this class makes them."""

    tokenizer: Any = None
    backend = "causal"

    @property
    @abc.abstractmethod
    def eot_token_id(self) -> int:
        """The token that ends a text."""

    @property
    def prefix_token_id(self) -> int:
        """The token that stands for an empty context."""
        return self.eot_token_id

    @abc.abstractmethod
    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Return the tokens of a text."""

    @abc.abstractmethod
    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(texts, context tokens, continuation tokens)`."""

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Return the tokens of a context and of its continuation; blanks at the seam belong to the latter."""
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
        texts = [(context, continuation) for context, continuation in (request.args for request in requests)]
        encoded = [
            (pair, *(self._encode_alone(pair[1]) if pair[0] == "" else self._encode_pair(*pair))) for pair in texts
        ]
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

    def _encode_alone(self, continuation: str) -> tuple[list[int], list[int]]:
        """Return the tokens of a continuation that follows nothing but the prefix token, which it may begin with."""
        tokens = self.tok_encode(continuation, add_special_tokens=False)
        begun = int(tokens[0] == self.prefix_token_id)
        return [self.prefix_token_id], tokens[begun:]

    @abc.abstractmethod
    def loglikelihood_rolling(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[Any]:
        """Return the log-likelihood of each whole text."""

    @abc.abstractmethod
    def generate_until(self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False) -> list[str]:
        """Return the text that the model writes after each `(context, settings)`."""

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the text of the tokenizer's template: the named one of several, else the default one."""
        if self.tokenizer is None:
            return ""
        if chat_template is False or chat_template is None:
            logger.warning("A chat template was asked for with templating switched off")
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
            raise ValueError(f"There is no chat template `{name}`; there are {', '.join(sorted(templates))}")
        return templates[name]
