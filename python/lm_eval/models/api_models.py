"""`TemplateAPI`: base class of HTTP models; subclasses build request bodies and parse answers.

The engine serves the models of `openai_completions` as long as none of their methods are overridden. A subclass with
its own payloads or parsers runs here, in threads that send requests with the standard library.
"""

from __future__ import annotations

import base64
import difflib
import functools
import inspect
import io
import json
import logging
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from lm_eval import _patches
from lm_eval._lazy import require
from lm_eval.api.model import TemplateLM
from lm_eval.models._served import JsonChatStr, Served
from lm_eval.models.utils import Collator, chunks, configure_pad_token
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

eval_logger = logging.getLogger(__name__)

LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER = os.getenv("LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER", "")
"""The result for an answer without content."""

__all__ = [
    "JsonChatStr",
    "LogLikelihoodInputs",
    "TemplateAPI",
    "create_image_prompt",
]

_RETRIED = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_SHOWN = 500
LogLikelihoodInputs = tuple[tuple[str, str], list[int], list[int]]
"""A log-likelihood request: its strings, the tokens of its context, and those of its continuation."""


_OF_ENGINE = ("_attributes", "_computed", "cache_hook")
"""Attributes that an evaluation sets."""


ENGINE_ARGUMENTS = (
    "api_key_env",
    "api_version",
    "device",
    "idle_timeout",
    "image_height",
    "image_max_side",
    "image_width",
    "interleave",
    "max_batch_size",
    "max_tokens_to_sample",
    "model_id",
    "patience",
    "reasoning_model",
    "recheck",
    "requests_per_minute",
    "retry_budget",
    "retry_wait",
    "scoring",
    "stream",
    "think_end_token",
    "tokens_per_minute",
    "top_logprobs",
)
"""Arguments that only the engine takes; `docs/servers.md` and `docs/models.md` describe them."""


class lazy(functools.cached_property):
    """A `cached_property` that remembers what it computed, so that a value set by a script is noticed."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Compute the value on first access."""
        value = super().__get__(instance, owner)
        if instance is not None:
            vars(instance).setdefault("_computed", {})[self.attrname] = value
        return value


def create_image_prompt(imgs: list[Any], chat: dict[str, Any], fmt: str = "PNG") -> dict[str, Any]:
    """Put images before the text of the last message of a conversation."""
    parts: list[dict[str, Any]] = []
    for image in imgs:
        buffer = io.BytesIO()
        image.save(buffer, format=fmt)
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        url = {"url": f"data:image/{fmt.lower()};base64,{data}", "detail": "auto"}
        parts.append({"type": "image_url", "image_url": url})
    last = chat[-1]  # type: ignore[index]
    content = last["content"]
    last["content"] = [*parts, *(content if isinstance(content, list) else [{"type": "text", "text": content}])]
    last.pop("type", None)
    return chat


class TemplateAPI(TemplateLM):
    """An HTTP model; a subclass defines `_create_payload`, `parse_logprobs` and `parse_generations`."""

    MULTIMODAL = False
    _attributes: dict[str, Any]
    ENGINE_NAME: ClassVar[str | None] = None

    def __init__(
        self,
        model: str | None = None,
        pretrained: str | None = None,
        base_url: str | None = None,
        tokenizer: str | None = None,
        tokenizer_backend: Literal["tiktoken", "huggingface", "remote", "auto", "None", "none"]
        | None = "huggingface",
        truncate: bool = False,
        num_concurrent: int = 1,
        max_retries: int = 3,
        max_gen_toks: int = 256,
        batch_size: str | int = 1,
        seed: int = 1234,
        max_length: int | None = 2048,
        add_bos_token: bool = False,
        custom_prefix_token_id: int | None = None,
        tokenized_requests: bool | None = True,
        trust_remote_code: bool = False,
        revision: str | None = "main",
        use_fast_tokenizer: bool = True,
        verify_certificate: bool = True,
        ca_cert_path: str | None = None,
        auth_token: str | None = None,
        eos_string: str | None = None,
        timeout: int = 300,
        header: dict[str, str] | None = None,
        max_images: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._warn_of_unknown(kwargs)
        self.model = model or pretrained
        self.base_url = base_url
        self.tokenizer_backend = None if str(tokenizer_backend).lower() == "none" else tokenizer_backend
        self.truncate = truncate
        self._concurrent = int(num_concurrent)
        self.max_retries = int(max_retries)
        self._max_gen_toks = int(max_gen_toks)
        self._batch_size = 1 if str(batch_size).startswith("auto") else int(batch_size)
        self._seed = int(seed)
        # One token is always generated, even when only scores are needed.
        self.max_length = int(max_length or 2048) - 1
        self.add_bos_token = add_bos_token
        self.custom_prefix_token_id = custom_prefix_token_id
        self.tokenized_requests = bool(tokenized_requests) and self.tokenizer_backend is not None
        self.verify_certificate = verify_certificate
        self.ca_cert_path = ca_cert_path
        self.auth_token = auth_token
        self._eos_string = eos_string
        self.timeout = float(timeout)
        self._header = header
        self.max_images = int(max_images)
        self._tokenizer_name = tokenizer
        self._tokenizer_options = {
            "trust_remote_code": trust_remote_code,
            "revision": revision,
            "use_fast": use_fast_tokenizer,
        }

    def _warn_of_unknown(self, given: Iterable[str]) -> None:
        """Warn of arguments that neither a class nor the engine takes, as the engine does for a model by name."""
        constructors = [vars(base)["__init__"] for base in type(self).__mro__[:-1] if "__init__" in vars(base)]
        named = {name for one in constructors for name in inspect.signature(one).parameters}
        known = sorted({*ENGINE_ARGUMENTS, *named} - {"self", "kwargs"})
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                advice = f"; did you mean `{near[0]}`?" if near else ""
                eval_logger.warning(
                    "The model argument `%s` is unknown to `%s` and has no effect%s", name, type(self).__name__, advice
                )

    def _serve(self, given: dict[str, Any]) -> None:
        """Let the engine answer, unless a subclass overrides something."""
        if self.ENGINE_NAME is not None and not self._overridden():
            options = {name: given.pop(name, None) for name in ("batch_size", "max_batch_size", "device")}
            given = {name: value for name, value in given.items() if value is not None}
            vars(self)["_engine"] = Served(self.ENGINE_NAME, given, **options)
            self._attributes = dict(vars(self))

    @property
    def _engine(self) -> Served | None:
        """The engine that answers, as long as no script has changed this object or its class since it was made."""
        served: Served | None = vars(self).get("_engine")
        return None if served is None or self._overridden() or self._set_later() else served

    def _set_later(self) -> list[str]:
        """Return the attributes of this object that a script has set since it was made."""
        known = {**self._attributes, **vars(self).get("_computed", {})}
        own = {name: value for name, value in vars(self).items() if name not in _OF_ENGINE}
        return [name for name, value in own.items() if name not in known or known[name] is not value]

    @classmethod
    def _overridden(cls) -> list[str]:
        """Return the methods that a user's class overrides or a script has replaced, or else the modules it has changed."""
        own = sorted(name for name in _patches.overridden(cls) if hasattr(TemplateAPI, name))
        return own or sorted(_patches.changed_helpers(cls))

    def _create_payload(
        self,
        messages: Any,
        *,
        generate: bool = True,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the body of a generation or log-likelihood request."""
        raise NotImplementedError(f"`{type(self).__name__}` has no `_create_payload`")

    @staticmethod
    def parse_logprobs(
        outputs: Any, tokens: list[list[int]] | None = None, ctxlens: list[int] | None = None, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each request from a server's answer."""
        raise NotImplementedError("This model has no `parse_logprobs`")

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        """Return the generations from a server's answer."""
        raise NotImplementedError("This model has no `parse_generations`")

    @lazy
    def api_key(self) -> str:
        """The API key of the service."""
        return ""

    @lazy
    def header(self) -> dict[str, str]:
        """The headers of requests."""
        return self._header or {"Authorization": f"Bearer {self.api_key}"}

    @property
    def batch_size(self) -> int:
        """The maximum number of concurrent requests."""
        return self._batch_size

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer, which is not recorded for servers."""
        return ""

    @lazy
    def tokenizer(self) -> Any:
        """The tokenizer, loaded on first use."""
        backend = self.tokenizer_backend
        name = self._tokenizer_name or self.model
        if backend is None:
            return None
        if backend == "tiktoken":
            return require("tiktoken", "`tokenizer_backend=tiktoken`").encoding_for_model(name)
        if backend == "remote":
            raise NotImplementedError(
                "A subclass with its own payloads cannot use a remote tokenizer: set `tokenizer` to a name on the hub"
            )
        transformers = require("transformers", "`tokenizer_backend=huggingface`")
        loaded = transformers.AutoTokenizer.from_pretrained(name, **self._tokenizer_options)
        return loaded if self._tokenizer_name else configure_pad_token(loaded)

    @property
    def _is_tiktoken(self) -> bool:
        return self.tokenizer_backend == "tiktoken"

    @lazy
    def eot_token_id(self) -> int | None:
        """The end-of-text token."""
        if self.tokenizer is None:
            return None
        return self.tokenizer.eot_token if self._is_tiktoken else self.tokenizer.eos_token_id

    @lazy
    def eos_string(self) -> str | None:
        """The string at which generation always stops."""
        if self._eos_string or self.tokenizer is None:
            return self._eos_string
        return (
            self.tokenizer.decode([self.tokenizer.eot_token])
            if self._is_tiktoken
            else self.tokenizer.eos_token
        )

    @lazy
    def prefix_token_id(self) -> int | None:
        """The token used as an empty context."""
        if self.custom_prefix_token_id is not None:
            return self.custom_prefix_token_id
        bos = None if self._is_tiktoken else getattr(self.tokenizer, "bos_token_id", None)
        return self.eot_token_id if bos is None else bos

    def tok_encode(  # type: ignore[override]
        self,
        string: str,
        left_truncate_len: int | None = None,
        add_special_tokens: bool = False,
        truncation: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Tokenize a string, or each of several; without a tokenizer, return the string itself."""
        if self.tokenizer is None:
            return [string]
        if not isinstance(string, str):
            return [self.tok_encode(text, left_truncate_len, add_special_tokens) for text in string]
        if self._is_tiktoken:
            tokens = self.tokenizer.encode(string, disallowed_special=())
        else:
            special = add_special_tokens or self.add_bos_token
            tokens = self.tokenizer.encode(string, add_special_tokens=special, truncation=truncation)
        return tokens[-left_truncate_len:] if left_truncate_len else tokens

    def decode_batch(self, tokens: list[list[int]]) -> list[str]:
        """Decode rows of tokens."""
        return [self.tokenizer.decode(row) for row in tokens]

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Any:
        """Render a conversation with the tokenizer's template, or as the JSON that is sent."""
        if self._engine is not None:
            return self._engine.apply_chat_template(chat_history, add_generation_prompt)
        if self.tokenized_requests and hasattr(self.tokenizer, "apply_chat_template"):
            return self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        messages = [{**message, "type": "text"} for message in chat_history]
        return JsonChatStr(json.dumps(messages, ensure_ascii=False))

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the source of the chat template."""
        if self._engine is not None:
            return self._engine.chat_template(chat_template)
        return super().chat_template(chat_template) if hasattr(self.tokenizer, "chat_template") else ""

    def create_message(self, messages: Any, generate: bool = False) -> Any:
        """Return prompts as they are sent: conversations, tokens, or strings."""
        first = messages[0]
        if isinstance(first, JsonChatStr):
            if len(messages) > 1:
                raise ValueError("A server accepts one conversation at a time: set `batch_size=1`")
            return json.loads(first.prompt)
        if isinstance(first, str):
            return first if self._batch_size <= 1 else list(messages)
        if self.tokenized_requests:
            return [list(tokens) for tokens in messages]
        prompts = self.decode_batch(messages)
        return prompts[0] if self._batch_size <= 1 else prompts

    def model_call(
        self, messages: Any, *, generate: bool = True, gen_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> Any:
        """Send one request and return the server's JSON answer."""
        payload = self._create_payload(
            self.create_message(messages, generate=generate),
            generate=generate,
            gen_kwargs=dict(gen_kwargs or {}),
            seed=self._seed,
            eos=self.eos_string,
            **kwargs,
        )
        return self._post(payload)

    async def amodel_call(self, *args: Any, **kwargs: Any) -> Any:
        """Not used: threads send requests."""
        raise NotImplementedError("Threads send the requests, through `model_call`")

    def _post(self, payload: dict[str, Any]) -> Any:
        """Send a body, retrying transient errors after a pause."""
        if not self.base_url or not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"`base_url` must be the URL of the server, not {self.base_url!r}")
        request = urllib.request.Request(
            self.base_url,
            data=json.dumps(payload).encode("utf-8"),
            headers={"Content-Type": "application/json", **self.header},
        )
        for attempt in range(1, max(self.max_retries, 1) + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout, context=self._tls()) as reply:
                    return json.load(reply)
            except urllib.error.HTTPError as error:
                body = error.read(_SHOWN).decode("utf-8", "replace")
                failure = RuntimeError(f"The server answered with status {error.code}: {body}")
                if error.code not in _RETRIED:
                    raise failure from None
            except (OSError, ValueError) as error:
                failure = RuntimeError(f"The server cannot be reached or understood: {error}")
            if attempt == max(self.max_retries, 1):
                raise failure
            eval_logger.warning("%s; attempt %d of %d", failure, attempt, self.max_retries)
            time.sleep(max(1.0, min(0.5 * 2 ** (attempt - 1), 10.0)))
        raise AssertionError("unreachable")

    def _tls(self) -> ssl.SSLContext | None:
        if self.base_url is None or self.base_url.startswith("http://"):
            return None
        context = ssl.create_default_context(cafile=self.ca_cert_path)
        if not self.verify_certificate:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def batch_loglikelihood_requests(
        self, chunks: Iterable[list[Any]]
    ) -> tuple[list[list[int]], list[int], list[tuple[str, str]]]:
        """Return truncated token rows, the context length of each, and the strings."""
        inputs, ctxlens, keys = [], [], []
        for chunk in chunks:
            for key, context, continuation in chunk:
                tokens = (context + continuation)[-self.max_length :]
                kept = len(context) - max(0, len(context) + len(continuation) - self.max_length)
                if kept < 1:
                    raise ValueError(
                        f"A continuation of {len(continuation)} tokens leaves no room for a context"
                    )
                inputs.append(tokens)
                ctxlens.append(kept)
                keys.append(key)
        return inputs, ctxlens, keys

    def _each(self, send: Callable[[Any], list[Any]], batches: Iterable[Any]) -> Iterator[list[Any]]:
        """Yield the answers of batches in order, with several in flight at once."""
        if self._concurrent <= 1:
            yield from map(send, batches)
            return
        with ThreadPoolExecutor(self._concurrent) as pool:
            running = [pool.submit(send, batch) for batch in batches]
            try:
                for future in running:
                    yield future.result()
            finally:
                for future in running:
                    future.cancel()

    def _loglikelihood_tokens(self, requests: list[Any], **kwargs: Any) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(strings, context tokens, continuation tokens)`."""
        if self.tokenizer is None:
            raise ValueError("Log-likelihoods need a tokenizer: set `tokenizer`")
        ordered = Collator(requests, sort_fn=lambda r: (-len(r[1] + r[2]), tuple(r[1] + r[2])))

        def send(batch: list[Any]) -> list[tuple[float, bool]]:
            inputs, ctxlens, keys = self.batch_loglikelihood_requests([batch])
            outputs = self.model_call(inputs, generate=False)
            answers = self.parse_logprobs(outputs=outputs, tokens=inputs, ctxlens=ctxlens)
            _check_count(answers, batch)
            for key, answer in zip(keys, answers, strict=True):
                if key is not None:
                    self.cache_hook.add_partial("loglikelihood", key, answer)
            return answers

        answered = self._each(send, ordered.get_batched(n=self._batch_size))
        return ordered.get_original([answer for answers in answered for answer in answers])

    def loglikelihood(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(context, continuation)`."""
        if self._engine is not None:
            return self._engine.loglikelihood(requests)
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm)

    def loglikelihood_rolling(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[Any]:
        """Return the log-likelihood of each entire string."""
        if self._engine is not None:
            return self._engine.loglikelihood_rolling(requests)
        if self.prefix_token_id is None:
            raise ValueError("The tokenizer has no beginning-of-sequence token: set `custom_prefix_token_id`")
        answers: list[Any] = []
        for request in requests:
            # The server generates one token in addition to the window.
            windows = get_rolling_token_windows(
                self.tok_encode(request.args[-1]), self.prefix_token_id, self.max_length - 1, context_len=1
            )
            scored = self._loglikelihood_tokens([(None, *make_disjoint_window(window)) for window in windows])
            value = sum(answer[0] for answer in scored)
            answer = value if len(request.args) == 1 else (value, False)
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
            answers.append(answer)
        return answers

    def generate_until(self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False) -> list[str]:
        """Return the generation for each `(context, settings)`."""
        if self._engine is not None:
            return self._engine.generate_until(requests)
        arguments = [request.args for request in requests]
        ordered = Collator(
            arguments, sort_fn=lambda a: -len(a[0]), group_fn=lambda a: a[1], group_by="gen_kwargs"
        )

        def send(batch: list[Any]) -> list[str]:
            settings = batch[0][1]
            contexts = [self._prompt(context, settings) for context, *_ in batch]
            outputs = self.model_call(contexts, generate=True, gen_kwargs=settings)
            generations = self.parse_generations(outputs=outputs, contexts=contexts)
            _check_count(generations, batch)
            generations = [LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER if text is None else text for text in generations]
            for argument, text in zip(batch, generations, strict=True):
                self.cache_hook.add_partial("generate_until", argument, text)
            return generations

        answered = self._each(send, ordered.get_batched(n=self._batch_size))
        return ordered.get_original([text for generations in answered for text in generations])

    def get_batched_requests(
        self,
        requests: list[Any],
        cache_keys: list[Any],
        *,
        generate: bool = True,
        ctxlens: list[int] | None = None,
        **kwargs: Any,
    ) -> list[list[Any]]:
        """Send prompts and return the answers, batch by batch; several requests are in flight at once."""
        lengths = ctxlens or [0] * len(requests)

        def send(batch: list[Any]) -> list[Any]:
            prompts, keys, own = ([entry[part] for entry in batch] for part in range(3))
            outputs = self.model_call(prompts, generate=generate, **kwargs)
            if generate:
                answers: list[Any] = self.parse_generations(outputs=outputs, contexts=prompts)
            else:
                answers = self.parse_logprobs(outputs=outputs, tokens=prompts, ctxlens=own)
            _check_count(answers, batch)
            for key, answer in zip(keys, answers, strict=True):
                if key is not None:
                    self.cache_hook.add_partial(
                        "generate_until" if generate else "loglikelihood", key, answer
                    )
            return answers

        entries = list(zip(requests, cache_keys, lengths, strict=True))
        return list(self._each(send, chunks(entries, self._batch_size)))

    def _prompt(self, context: Any, settings: dict[str, Any]) -> Any:
        """Return a context as it is sent: tokens truncated to leave room for the answer, or unchanged."""
        if not self.tokenized_requests or isinstance(context, JsonChatStr):
            return context
        limit = int(settings.get("max_gen_toks", self._max_gen_toks))
        if limit >= self.max_length:
            raise ValueError(f"{limit} new tokens leave no room for a prompt in {self.max_length}")
        return self.tok_encode(context, left_truncate_len=self.max_length - limit)


def _check_count(answers: list[Any], batch: list[Any]) -> None:
    if len(answers) != len(batch):
        raise ValueError(f"The server returned {len(answers)} answers to {len(batch)} requests")
