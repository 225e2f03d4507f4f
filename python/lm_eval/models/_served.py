"""Models that the engine serves: the `lm-eval` binary runs one of its own models and answers requests."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_eval.api.model import LM, plain_attributes

if TYPE_CHECKING:
    from lm_eval import _engine
    from lm_eval.api.instance import Instance


class JsonChatStr(NamedTuple):
    """A conversation, as the JSON string that is sent to a chat server."""

    prompt: str

    def encode(self, encoding: str) -> bytes:
        """Return the string as bytes."""
        return self.prompt.encode(encoding)


class Served:
    """A model in its own engine, which stops with this object."""

    def __init__(
        self,
        name: str,
        arguments: dict[str, Any],
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        python: str | None = None,
    ) -> None:
        from lm_eval import _engine

        self.name = name
        self._arguments = arguments
        self._lock = threading.Lock()
        self._session: _engine.Session | None = None
        settings = {
            "model": name,
            "model_args": arguments,
            "batch_size": batch_size,
            "max_batch_size": max_batch_size,
            "device": None if device is None else str(device),
            "python": python,
        }
        self._session = _engine.Session("model", settings=settings)
        self._finalizer = weakref.finalize(self, self._session.close)

    def _turn(self, **wanted: Any) -> Any:
        with self._lock:
            if self._session is None or self._session.is_closed:
                raise RuntimeError(f"The engine that serves the model `{self.name}` has exited")
            return self._session.turn(wanted)

    def _identity(self) -> dict[str, Any]:
        """Return the arguments that identify this model."""
        return {"name": self.name, **plain_attributes(self._arguments)}

    def start(self) -> None:
        """Wait until the model can answer."""
        self._turn(want="start")

    def close(self) -> None:
        """Stop the engine."""
        self._finalizer()

    def _answers(self, kind: str, requests: list[Instance[Any, Any]]) -> list[Any]:
        sent = []
        for request in requests:
            if len(request.args) > 2:
                raise NotImplementedError(
                    "A model served by the engine does not take images or audio from Python; use `lm-eval run`"
                )
            sent.append(
                [kind, list(request.args), request.task_name or "", request.doc_id or 0, request.idx or 0]
            )
        answers: list[Any] = self._turn(want="answers", requests=sent)
        return answers

    def loglikelihood(self, requests: list[Instance[Any, Any]]) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(context, continuation)`."""
        return self._answers("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: list[Instance[Any, Any]]) -> list[Any]:
        """Return `(log-likelihood, False)` of each `("", text)`, and a bare number for each `(text,)`."""
        answers = self._answers("loglikelihood_rolling", requests)
        return [
            answer[0] if len(request.args) == 1 else answer
            for request, answer in zip(requests, answers, strict=True)
        ]

    def generate_until(self, requests: list[Instance[Any, Any]]) -> list[str]:
        """Return the generation for each `(context, settings)`."""
        return self._answers("generate_until", requests)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Any:
        """Render a conversation as a prompt: a string, or the messages for a chat server."""
        made = self._turn(want="prompt", messages=chat_history, add_generation_prompt=add_generation_prompt)
        return JsonChatStr(*made) if isinstance(made, tuple) else made

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the source of the chat template: the named one, otherwise the default."""
        name = chat_template if isinstance(chat_template, str) else None
        source: str | None = self._turn(want="template", name=name)
        return source

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the engine's facts about the model and its tokenizer."""
        facts: dict[str, dict[str, Any]] = self._turn(want="facts")
        return facts

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's entry in results."""
        return self.facts()["config"]


class ServedMethods:
    """The methods of an `LM` whose requests the engine answers."""

    _served: Served
    cache_hook: Any

    def loglikelihood(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(context, continuation)`."""
        return self._handed("loglikelihood", requests, self._served.loglikelihood(requests))

    def loglikelihood_rolling(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[Any]:
        """Return the log-likelihood of each entire string."""
        return self._handed("loglikelihood_rolling", requests, self._served.loglikelihood_rolling(requests))

    def generate_until(self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False) -> list[str]:
        """Return the generation for each `(context, settings)`."""
        return self._handed("generate_until", requests, self._served.generate_until(requests))

    def _handed(self, kind: str, requests: list[Instance[Any, Any]], answers: list[Any]) -> list[Any]:
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial(kind, request.args, answer)
        return answers

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Any:
        """Render a conversation as a prompt."""
        return self._served.apply_chat_template(chat_history, add_generation_prompt)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the source of the chat template."""
        return self._served.chat_template(chat_template)

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's entry in results."""
        return self._served.get_model_info()


class ServedLM(ServedMethods, LM):
    """An `LM` that the engine serves; a subclass names one of the engine's models."""

    NAME: str

    def __init__(
        self,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._served = Served(self.NAME, kwargs, batch_size, max_batch_size, device)

    @property
    def tokenizer_name(self) -> str:
        """The engine names no tokenizer."""
        return ""
