"""A tokenizer that runs in a server such as vLLM."""

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
    """Tokenizes on a server, through `/tokenizer_info`, `/tokenize` and `/detokenize`.

    `base_url` may also be the URL of the completions. A server without these endpoints raises a `RuntimeError`.
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
                f"The server at `{self.base_url}` does not describe its tokenizer; set `tokenizer` to a name instead"
            ) from error

    def _request(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the server's answer, retrying a few times."""
        data = None if body is None else json.dumps(body).encode("utf-8")
        request = urllib.request.Request(self.base_url + path, data=data, headers=self.headers)
        for attempt in range(1, self.max_retries + 1):
            try:
                context = self._context if self.base_url.startswith("https:") else None
                with urllib.request.urlopen(request, timeout=self.timeout, context=context) as answer:
                    decoded = json.load(answer)
                if not isinstance(decoded, dict):
                    raise ValueError("the answer is not a JSON object")
                return decoded
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt == self.max_retries:
                    raise RuntimeError(
                        f"The server answered `{path}` with {error.code} {error.reason}"
                    ) from error
            except (OSError, ValueError) as error:
                if attempt == self.max_retries:
                    raise RuntimeError(f"The request to `{path}` failed: {error}") from error
            time.sleep(min(0.1 * 2**attempt, 2.0))
        raise RuntimeError(f"`{path}` was not requested: `max_retries` is {self.max_retries}")

    @functools.cached_property
    def tokenizer_info(self) -> dict[str, Any]:
        """The server's description of its tokenizer."""
        return self._request("/tokenizer_info")

    @property
    def eos_token(self) -> str | None:
        """The end-of-sequence token, as a string."""
        return self.tokenizer_info.get("eos_token")

    @property
    def bos_token(self) -> str | None:
        """The beginning-of-sequence token, as a string."""
        return self.tokenizer_info.get("bos_token")

    @property
    def pad_token(self) -> str | None:
        """The padding token, as a string."""
        return self.tokenizer_info.get("pad_token")

    @functools.cached_property
    def eos_token_id(self) -> int | None:
        """The id of the end-of-sequence token."""
        return self._special("eos")

    @functools.cached_property
    def bos_token_id(self) -> int | None:
        """The id of the beginning-of-sequence token."""
        return self._special("bos")

    @property
    def eot_token(self) -> int | None:
        """The id of the end-of-sequence token."""
        return self.eos_token_id

    def _special(self, kind: str) -> int | None:
        token_id, text = (self.tokenizer_info.get(f"{kind}_token{end}") for end in ("_id", ""))
        if token_id is not None or text is None:
            return token_id
        # Servers may report the string of a token but not its id.
        return self.encode(text)[0]

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a string, without special tokens around it."""
        return list(self._request("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"])

    def decode(self, tokens: list[int]) -> str:
        """Decode token ids."""
        return str(self._request("/detokenize", {"tokens": tokens})["prompt"])

    def batch_decode(self, tokens_list: list[list[int]]) -> list[str]:
        """Decode each list of token ids."""
        return [self.decode(tokens) for tokens in tokens_list]

    def __call__(
        self, text: str | list[str], add_special_tokens: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the token ids of a string, or of each string, as `input_ids`."""
        if isinstance(text, str):
            return {"input_ids": self.encode(text)}
        return {"input_ids": [self.encode(one) for one in text]}

    def apply_chat_template(
        self, chat_history: list[dict[str, Any]], add_generation_prompt: bool = True, **kwargs: Any
    ) -> str:
        """Render a conversation with the server's chat template; needs the package `jinja2`."""
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
    """Return whether a server supports tokenization."""
    try:
        tokenizer = RemoteTokenizer(
            base_url, timeout, verify_certificate, ca_cert_path, auth_token, max_retries
        )
        return bool(tokenizer.eos_token) and bool(tokenizer.encode("test"))
    except RuntimeError:
        return False
