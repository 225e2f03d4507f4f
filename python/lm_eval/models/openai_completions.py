"""OpenAI-compatible servers.

The engine serves these models. A subclass that overrides payloads, parsers or headers runs in Python.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from lm_eval.models.api_models import TemplateAPI, lazy
from lm_eval.models.utils import handle_stop_sequences, postprocess_generated_text

eval_logger = logging.getLogger(__name__)

__all__ = [
    "AzureOpenaiChatCompletionsLM",
    "LocalChatCompletion",
    "LocalCompletionsAPI",
    "OpenAIChatCompletion",
    "OpenAICompletionsAPI",
]

_STOPS_OF_CHATS = 4


class LocalCompletionsAPI(TemplateAPI):
    """The completions endpoint of an OpenAI-compatible server, such as vLLM."""

    ENGINE_NAME = "local-completions"

    def __init__(
        self,
        base_url: str | None = None,
        tokenizer_backend: Any = "auto",
        verify_certificate: bool = True,
        ca_cert_path: str | None = None,
        auth_token: str | None = None,
        **kwargs: Any,
    ) -> None:
        given = {
            "base_url": base_url,
            "verify_certificate": None if verify_certificate else False,
            "ca_cert_path": ca_cert_path,
            "auth_token": auth_token,
            **kwargs,
        }
        if tokenizer_backend != type(self)._own_backend:
            # `None` is not passed to the engine, which then uses its default.
            given["tokenizer_backend"] = "none" if tokenizer_backend is None else tokenizer_backend
        super().__init__(
            base_url=base_url,
            tokenizer_backend="huggingface" if tokenizer_backend == "auto" else tokenizer_backend,
            verify_certificate=verify_certificate,
            ca_cert_path=ca_cert_path,
            auth_token=auth_token,
            **kwargs,
        )
        self._serve(given)

    _own_backend: str | None = "auto"

    @property
    def api_key(self) -> str:
        """The API key in the environment, if set."""
        return os.environ.get("OPENAI_API_KEY", "")

    def _create_payload(
        self,
        messages: Any,
        generate: bool = False,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the body of a completion request, which for log-likelihoods echoes the prompt."""
        if not generate:
            return {
                "model": self.model,
                "prompt": messages,
                "temperature": 0,
                "max_tokens": 1,
                "logprobs": 1,
                "seed": seed,
                "echo": True,
            }
        return {"prompt": messages, "model": self.model, **self._settings(gen_kwargs, seed, eos)}

    def _settings(self, gen_kwargs: dict[str, Any] | None, seed: int, eos: str | None) -> dict[str, Any]:
        """Return generation settings under OpenAI's names."""
        rest = dict(gen_kwargs or {})
        rest.pop("do_sample", None)
        limit = (
            rest.pop("max_tokens") if "max_tokens" in rest else rest.pop("max_gen_toks", self._max_gen_toks)
        )
        return {
            "max_tokens": limit,
            "temperature": rest.pop("temperature", 0),
            "stop": handle_stop_sequences(rest.pop("until", None), eos),
            "seed": seed,
            **rest,
        }

    @staticmethod
    def parse_logprobs(
        outputs: Any, tokens: list[list[int]] | None = None, ctxlens: list[int] | None = None, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Return the sums over the continuations, ignoring the generated token at the end of each choice."""
        choices = [
            choice
            for output in _listed(outputs)
            for choice in sorted(output["choices"], key=lambda choice: choice["index"])
        ]
        answers = []
        for choice, start in zip(choices, ctxlens or [], strict=True):
            logprobs = choice["logprobs"]
            scored = logprobs["token_logprobs"][start:-1]
            best = [max(top.values()) for top in logprobs["top_logprobs"][start:-1]]
            answers.append((sum(scored), scored == best))
        return answers

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        """Return the generations in the order of the prompts."""
        return [
            text for output in _listed(outputs) for text in _in_order(output, lambda choice: choice["text"])
        ]


class LocalChatCompletion(LocalCompletionsAPI):
    """The chat completions endpoint of an OpenAI-compatible server."""

    ENGINE_NAME = "local-chat-completions"
    _own_backend = None

    def __init__(
        self,
        base_url: str | None = None,
        tokenizer_backend: Any = None,
        tokenized_requests: bool | None = None,
        think_end_token: str | None = None,
        verify_certificate: bool = True,
        ca_cert_path: str | None = None,
        auth_token: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.think_end_token = think_end_token
        if str(kwargs.get("batch_size", 1)) != "1":
            eval_logger.warning("A chat server accepts one conversation at a time: `batch_size` has no effect")
            kwargs["batch_size"] = 1
        super().__init__(
            base_url=base_url,
            tokenizer_backend=tokenizer_backend,
            verify_certificate=verify_certificate,
            ca_cert_path=ca_cert_path,
            auth_token=auth_token,
            **({} if tokenized_requests is None else {"tokenized_requests": tokenized_requests}),
            **({} if think_end_token is None else {"think_end_token": think_end_token}),
            **kwargs,
        )

    def _create_payload(
        self,
        messages: list[dict[str, Any]],
        generate: bool = False,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the body of a chat completion request."""
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise ValueError("A chat server needs conversations: evaluate with `apply_chat_template=True`")
        settings = self._settings(gen_kwargs, seed, eos)
        settings["stop"] = settings["stop"][:_STOPS_OF_CHATS]
        return {"messages": messages, "model": self.model, **settings}

    def parse_generations(self, outputs: Any, **kwargs: Any) -> list[str]:  # type: ignore[override]
        """Return the contents of the messages."""
        generations = [
            text
            for output in _listed(outputs)
            for text in _in_order(output, lambda choice: choice["message"]["content"])
        ]
        return [postprocess_generated_text(text or "", None, self.think_end_token) for text in generations]

    def tok_encode(  # type: ignore[override]
        self,
        string: Any,
        left_truncate_len: int | None = None,
        add_special_tokens: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the conversation: the server has the tokenizer."""
        return string

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False, **kwargs: Any) -> Any:
        """Raise: chat servers do not score."""
        raise NotImplementedError(
            "Chat completions do not return log-likelihoods: use `local-completions` for tasks that need them"
        )


class OpenAICompletionsAPI(LocalCompletionsAPI):
    """OpenAI's completion models."""

    ENGINE_NAME = "openai-completions"
    _own_backend = "tiktoken"

    def __init__(
        self,
        base_url: str = "https://api.openai.com/v1/completions",
        tokenizer_backend: Any = "tiktoken",
        **kwargs: Any,
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

    @lazy
    def api_key(self) -> str:
        """The API key in the environment."""
        return _key("OPENAI_API_KEY")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return an empty template: the models take plain strings."""
        return ""


class OpenAIChatCompletion(LocalChatCompletion):
    """OpenAI's chat models."""

    ENGINE_NAME = "openai-chat-completions"

    def __init__(
        self,
        base_url: str = "https://api.openai.com/v1/chat/completions",
        tokenizer_backend: Any = None,
        tokenized_requests: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

    @lazy
    def api_key(self) -> str:
        """The API key in the environment."""
        return _key("OPENAI_API_KEY")

    def _create_payload(
        self,
        messages: list[dict[str, Any]],
        generate: bool = False,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = "<|endoftext|>",
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the body; reasoning models choose their own temperature and take no stop sequences."""
        given = {"until": ["<|endoftext|>"], **(gen_kwargs or {})}
        body = super()._create_payload(messages, generate, given, seed, eos, **kwargs)
        body["max_completion_tokens"] = body.pop("max_tokens")
        if any(mark in str(self.model) for mark in ("o1", "o3", "o4", "5")):
            del body["stop"]
            body["temperature"] = 1
        return body


class AzureOpenaiChatCompletionsLM(OpenAIChatCompletion):
    """OpenAI's chat models on Azure, served by the engine."""

    ENGINE_NAME = "azure-openai-chat-completions"

    def __init__(self, model: str | None = None, base_url: str | None = None, **kwargs: Any) -> None:
        if self._overridden():
            raise NotImplementedError(
                "Subclass `OpenAIChatCompletion` instead, with Azure's URL and headers"
            )
        super().__init__(base_url=base_url, model=model, **kwargs)  # type: ignore[arg-type]


def _listed(outputs: Any) -> list[Any]:
    return outputs if isinstance(outputs, list) else [outputs]


def _in_order(output: dict[str, Any], text: Any) -> list[Any]:
    choices = sorted(output["choices"], key=lambda choice: choice.get("index", 0))
    return [text(choice) for choice in choices]


def _key(variable: str) -> str:
    key = os.environ.get(variable)
    if not key:
        raise ValueError(f"The model needs an API key: set the environment variable `{variable}`")
    return key
