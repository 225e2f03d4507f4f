"""Models on a server that belongs to the object: the engine starts it with this interpreter, and stops it with the object."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from lm_eval._lazy import require
from lm_eval.api.model import TemplateLM
from lm_eval.models._served import Served, ServedMethods
from lm_eval.models.utils import _add_special_kwargs

if TYPE_CHECKING:
    from types import TracebackType


LaunchedType = TypeVar("LaunchedType", bound="LaunchedLM")


class LaunchedLM(ServedMethods, TemplateLM):
    """A model whose server starts with this object and stops with it: on `close`, at the end of `with`, or when collected.

    The engine tokenizes, sends requests and reads answers. `tokenizer`, `tok_encode` and `tok_decode` are for scripts.
    """

    NAME: str
    _TOKENIZER = ("tokenizer", "pretrained")
    """The arguments that may name the tokenizer, the first one that is set."""

    def __init__(
        self,
        pretrained: str | os.PathLike[str],
        *,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: Any = None,
        max_gen_toks: int | None = None,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        from lm_eval import _refusals

        _refusals.refuse_overrides(type(self), "the engine")
        if not isinstance(pretrained, (str, os.PathLike)):
            raise TypeError(
                f"`{type(self).__name__}` takes a model name or folder, not an object of type "
                f"`{type(pretrained).__name__}`: pass objects to `HFLM`"
            )
        shared = {
            "max_gen_toks": max_gen_toks,
            "add_bos_token": add_bos_token,
            "prefix_token_id": prefix_token_id,
        }
        self._given = {
            name: value
            for name, value in {"pretrained": os.fspath(pretrained), **shared, **kwargs}.items()
            if value is not None
        }
        self.add_bos_token = add_bos_token
        self.custom_prefix_token_id = prefix_token_id
        self.max_gen_toks = 256 if max_gen_toks is None else int(max_gen_toks)
        self._tokenizer: Any = None
        self.batch_size = "auto" if batch_size is None else batch_size
        self._served = Served(
            self.NAME, self._given, batch_size, max_batch_size, device, python=sys.executable
        )
        self._served.start()

    def __enter__(self: LaunchedType) -> LaunchedType:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server and wait until its processes have ended."""
        self._served.close()

    @property
    def model(self) -> Any:
        """Raise: the model is in the server's process."""
        raise AttributeError(
            f"`{type(self).__name__}` has no `model`: it is in the server's process. Call `loglikelihood` and "
            "`generate_until`, or `generate` of the server's own package for anything else"
        )

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of `transformers`, loaded on first use."""
        if self._tokenizer is None:
            transformers = require("transformers", f"The tokenizer of `{type(self).__name__}`")
            name = next(self._given[key] for key in self._TOKENIZER if self._given.get(key))
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                name,
                revision=self._given.get("tokenizer_revision") or self._given.get("revision"),
                trust_remote_code=bool(self._given.get("trust_remote_code", False)),
            )
        return self._tokenizer

    @property
    def eot_token_id(self) -> int:
        """The end-of-text token."""
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        """The token used as an empty context."""
        if self.custom_prefix_token_id is not None:
            return self.custom_prefix_token_id
        bos = self.tokenizer.bos_token_id
        return self.eot_token_id if bos is None else int(bos)

    @property
    def max_length(self) -> int:
        """The maximum sequence length, in tokens: as given, or as the server reports it."""
        given = self._given.get("max_length") or self._given.get("max_model_len")
        return int(given or self._served.facts()["tokenizer"]["max_length"])

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer, as part of a file name."""
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def tok_encode(
        self,
        string: str | list[str],
        add_special_tokens: bool | None = None,
        left_truncate_len: int | None = None,
        truncation: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Tokenize a string, or each of several."""
        if not isinstance(string, str):
            return [
                self.tok_encode(text, add_special_tokens, left_truncate_len, truncation, **kwargs) for text in string
            ]
        special = _add_special_kwargs(add_special_tokens, bool(self.add_bos_token))
        tokens = self.tokenizer.encode(string, truncation=truncation, **special, **kwargs)
        return tokens[-left_truncate_len:] if left_truncate_len else tokens

    def tok_decode(self, tokens: list[int]) -> str:
        """Decode tokens."""
        return str(self.tokenizer.decode(tokens))

    def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> list[tuple[float, bool]]:
        """The engine tokenizes strings itself."""
        raise NotImplementedError(f"`{type(self).__name__}` scores strings: call `loglikelihood`")
