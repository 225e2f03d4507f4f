"""A tokenizer that runs in a server, as vLLM offers it."""

from __future__ import annotations

import functools
import json
import ssl
import time
import urllib.error
import urllib.request
from typing import Any

__all__ = ["RemoteTokenizer", "check_remote_tokenizer_support"]

_ENDINGS = ("/v1/completions", "/v1/chat/completions", "/completions", "/chat/completions", "/v1")


class RemoteTokenizer:
    """Asks a server for tokens: `/tokenizer_info`, `/tokenize` and `/detokenize`.

    `base_url` may be the address of the completions, too. A server without these calls is a `RuntimeError`.
    """

    def __init__(
        self,
        base_url: str,
        timeout: int = 30,
        verify_certificate: bool = True,
        ca_cert_path: str | None = None,
        auth_token: str | None = None,
        max_retries: int = 3,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        for ending in _ENDINGS:
            if self.base_url.endswith(ending):
                self.base_url = self.base_url.removesuffix(ending)
                break
        self.timeout = timeout
        self.max_retries = max_retries
        self.headers = {"Content-Type": "application/json"}
        if auth_token:
            self.headers["Authorization"] = f"Bearer {auth_token}"
        self._context = ssl.create_default_context(cafile=ca_cert_path)
        if not verify_certificate:
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        try:
            _ = self.tokenizer_info
        except RuntimeError as error:
            raise RuntimeError(
                f"The server at `{self.base_url}` gives no information about its tokenizer; name a tokenizer instead"
            ) from error

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the server answers, after a few attempts."""
        data = None if body is None else json.dumps(body).encode("utf-8")
        request = urllib.request.Request(self.base_url + path, data=data, headers=self.headers)
        for attempt in range(1, self.max_retries + 1):
            try:
                context = self._context if self.base_url.startswith("https:") else None
                with urllib.request.urlopen(request, timeout=self.timeout, context=context) as answer:
                    told = json.load(answer)
                if not isinstance(told, dict):
                    raise ValueError("the answer is not an object of JSON")
                return told
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt == self.max_retries:
                    raise RuntimeError(
                        f"`{path}` of the server answers {error.code} {error.reason}"
                    ) from error
            except (OSError, ValueError) as error:
                if attempt == self.max_retries:
                    raise RuntimeError(f"`{path}` of the server cannot be used: {error}") from error
            time.sleep(min(0.1 * 2**attempt, 2.0))
        raise RuntimeError(f"`{path}` was not asked: `max_retries` is {self.max_retries}")

    @functools.cached_property
    def tokenizer_info(self) -> dict[str, Any]:
        """What the server says of its tokenizer."""
        return self._ask("/tokenizer_info")

    @property
    def eos_token(self) -> str | None:
        """The text of the token that ends a text."""
        return self.tokenizer_info.get("eos_token")

    @property
    def bos_token(self) -> str | None:
        """The text of the token that begins a text."""
        return self.tokenizer_info.get("bos_token")

    @property
    def pad_token(self) -> str | None:
        """The text of the token that fills up batches."""
        return self.tokenizer_info.get("pad_token")

    @functools.cached_property
    def eos_token_id(self) -> int | None:
        """The token that ends a text."""
        return self._special("eos")

    @functools.cached_property
    def bos_token_id(self) -> int | None:
        """The token that begins a text."""
        return self._special("bos")

    @property
    def eot_token(self) -> int | None:
        """The token that ends a text."""
        return self.eos_token_id

    def _special(self, kind: str) -> int | None:
        number, text = (self.tokenizer_info.get(f"{kind}_token{end}") for end in ("_id", ""))
        if number is not None or text is None:
            return number
        # Servers may know the text of a token and not its number.
        return self.encode(text)[0]

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without special ones around it."""
        return list(self._ask("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"])

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens."""
        return str(self._ask("/detokenize", {"tokens": tokens})["prompt"])

    def batch_decode(self, tokens_list: list[list[int]]) -> list[str]:
        """Return the text of each list of tokens."""
        return [self.decode(tokens) for tokens in tokens_list]

    def __call__(
        self, text: str | list[str], add_special_tokens: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the tokens of a text, or of each text, as `input_ids`."""
        if isinstance(text, str):
            return {"input_ids": self.encode(text)}
        return {"input_ids": [self.encode(one) for one in text]}

    def apply_chat_template(
        self, chat_history: list[dict[str, Any]], add_generation_prompt: bool = True, **kwargs: Any
    ) -> str:
        """Return a conversation as text, by the server's template; needs the package `jinja2`."""
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        template = self.tokenizer_info.get("chat_template")
        if not template:
            raise ValueError(f"The server at `{self.base_url}` has no chat template")
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _raise
        given = {"add_generation_prompt": add_generation_prompt, **self.tokenizer_info, **kwargs}
        return environment.from_string(template).render(messages=chat_history, **given)


def _raise(message: str) -> None:
    raise ValueError(message)


def check_remote_tokenizer_support(
    base_url: str,
    timeout: int = 5,
    verify_certificate: bool = True,
    ca_cert_path: str | None = None,
    auth_token: str | None = None,
    max_retries: int = 3,
) -> bool:
    """Return whether a server tokenizes."""
    try:
        tokenizer = RemoteTokenizer(
            base_url, timeout, verify_certificate, ca_cert_path, auth_token, max_retries
        )
        return bool(tokenizer.eos_token) and bool(tokenizer.encode("test"))
    except RuntimeError:
        return False
