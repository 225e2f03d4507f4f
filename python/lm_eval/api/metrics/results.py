"""The model's answers about the options of one document."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval.api.metrics._numeric import array

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

__all__ = ["LLResults"]


def _no_numbers() -> Any:
    return array(())


@dataclass
class LLResults:
    """The log-likelihoods, greedy flags and options of one document.

    `choices` are the continuations as sent, including the delimiter. `option_texts` are the strings whose lengths
    `acc_norm` and `acc_bytes` divide by; where it is empty they use `choices`.
    """

    results: list[Any]
    targets: int | list[int] | str | list[str]
    ctx: str = ""
    choices: Sequence[str] = field(default_factory=list)
    lls_mutual_info: Any = field(default_factory=_no_numbers)
    metadata: dict[str, Any] = field(default_factory=dict)
    lls: Any = field(kw_only=True)
    is_greedy: Sequence[bool] = field(kw_only=True)
    option_texts: Sequence[str] = field(default_factory=list, kw_only=True)

    def char_len(self) -> Any:
        """Return the number of characters of each continuation."""
        return self._lengths(self.choices, len)

    def byte_len(self) -> Any:
        """Return the number of UTF-8 bytes of each continuation."""
        return self._lengths(self.choices, _bytes)

    def word_len(self) -> Any:
        """Return the number of whitespace-separated pieces of each continuation, including empty ones at the ends."""
        return self._lengths(self.choices, _words)

    def option_char_len(self) -> Any:
        """Return the number of characters of each option without its delimiter."""
        return self._lengths(self.option_texts or self.choices, len)

    def option_byte_len(self) -> Any:
        """Return the number of UTF-8 bytes of each option without its delimiter."""
        return self._lengths(self.option_texts or self.choices, _bytes)

    def to_metric_inputs(self) -> dict[str, Any]:
        """Return the arguments of metrics: `metric.compute(**results.to_metric_inputs())`."""
        return {"references": self.targets, "predictions": self}

    def _lengths(self, texts: Sequence[str], length: Callable[[str], int]) -> Any:
        return array(length(text) for text in texts) if len(texts) else array(1.0 for _ in self.lls)

    @classmethod
    def from_instances(cls, results: Sequence[Instance[Any, Any]], filter_name: str = "none") -> LLResults:
        """Bundle the filtered answers to all requests of one document."""
        ordered = sorted(results, key=lambda instance: (instance.doc_id or 0, _is_unconditional(instance)))
        answers = [instance.filtered_resps[filter_name] for instance in ordered]
        flat = [answer for of_request in answers for answer in of_request]
        lls = [answer[0] for answer in flat]
        is_greedy = [answer[1] for answer in flat]
        continuations = [instance.args[1] for instance in ordered]
        count = sum(not _is_unconditional(instance) for instance in ordered)
        mutual: list[float] = []
        if count != len(ordered):
            if 2 * count != len(ordered) or continuations[:count] != continuations[count:]:
                raise AssertionError(
                    "Mutual information needs each continuation both with and without the context"
                )
            mutual = [lls[position] - lls[count + position] for position in range(count)]
            lls, is_greedy, continuations = lls[:count], is_greedy[:count], continuations[:count]
        texts = [instance.metadata.get("option_text") for instance in ordered[:count]]
        return cls(
            results=answers,
            targets=ordered[0].target,  # type: ignore[arg-type]
            ctx=ordered[0].args[0],
            choices=continuations,
            lls_mutual_info=array(mutual),
            lls=array(lls),
            is_greedy=is_greedy,
            option_texts=[] if any(text is None for text in texts) else texts,
        )


def _is_unconditional(instance: Instance[Any, Any]) -> bool:
    return bool(instance.metadata.get("acc_mutual_info", False))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _words(text: str) -> int:
    return len(re.split(r"\s+", text))
