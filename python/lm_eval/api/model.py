"""Base classes of models that are written in Python."""

from __future__ import annotations

import abc
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from lm_eval.utils import simple_parse_args_string

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

logger = logging.getLogger(__name__)

LMType = TypeVar("LMType", bound="LM")

__all__ = ["LM", "CacheHook", "TemplateLM"]


class CacheHook:
    """Takes answers as soon as a model has them; the base class drops them."""

    def __init__(self, cachinglm: Any = None) -> None:
        self.dbdict = None if cachinglm is None else cachinglm.dbdict

    def add_partial(self, attr: str, req: Any, res: Any) -> None:
        """Take the answer to one request of the method `attr`."""


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
        encoded = []
        for context, continuation in (request.args for request in requests):
            if context == "":
                tokens = self.tok_encode(continuation, add_special_tokens=False)
                if tokens[0] == self.prefix_token_id:
                    pair = tokens[:1], tokens[1:]
                else:
                    pair = [self.prefix_token_id], tokens
            else:
                pair = self._encode_pair(context, continuation)
            encoded.append(((context, continuation), *pair))
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

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
        templates = getattr(self.tokenizer, "chat_template", None)
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
