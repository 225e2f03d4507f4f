"""Samplers: choose few-shot examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from lm_eval.api.registry import register_sampler, sampler_registry

__all__ = ["SAMPLER_REGISTRY", "ContextSampler", "FirstNSampler", "get_sampler"]


@register_sampler("default")
class ContextSampler:
    """Draws examples at random; the generator state carries over from document to document."""

    def __init__(
        self,
        df: Sequence[dict[str, Any]] | None = None,
        *,
        rnd: int | None = None,
        fewshot_indices: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        self.rnd = Random(rnd)
        self.df: Sequence[dict[str, Any]] = [] if df is None else df
        self.fewshot_indices = fewshot_indices
        self._chosen = False

    def sample(
        self,
        n: int,
        eval_doc: dict[str, Any] | None = None,
        df: Sequence[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Sequence[dict[str, Any]]:
        """Return n examples, excluding the evaluated document if given."""
        if n < 0:
            raise AssertionError(f"Cannot draw {n} examples")
        if n == 0:
            return []
        if df:
            self.replace_df(df)
        pool = self.fewshot_docs()
        if not pool:
            raise AssertionError("There are no examples to draw from")
        if not eval_doc:
            return self.rnd.sample(pool, n)
        # Reference: one extra example is drawn in case the evaluated document is among them.
        drawn = self.rm_eval_doc(eval_doc, self.rnd.sample(pool, n + 1), n)
        if len(drawn) < n:
            drawn = self.rnd.sample(self.rm_eval_doc(eval_doc, pool), n)
        return drawn

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        """Restart the generator from a seed."""
        self.rnd = Random(rnd)
        return self

    def replace_df(self, df: Sequence[dict[str, Any]]) -> ContextSampler:
        """Replace the documents to draw from."""
        self.df = df
        self._chosen = False
        return self

    def fewshot_docs(self) -> list[dict[str, Any]]:
        """Return the documents to draw from."""
        indices = None if self._chosen else self.fewshot_indices
        self._chosen = True
        if indices and self.df:
            self.df = [self.df[index] for index in indices]
        return list(self.df)

    @staticmethod
    def rm_eval_doc(
        doc: dict[str, Any], _iter: Iterable[dict[str, Any]], n: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the first n documents that differ from `doc`, or all of them."""
        others = [other for other in _iter if other != doc]
        return others if n is None else others[:n]


@register_sampler("first_n")
class FirstNSampler(ContextSampler):
    """Takes the first examples in order."""

    def sample(
        self,
        n: int,
        eval_doc: dict[str, Any] | None = None,
        df: Sequence[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Sequence[dict[str, Any]]:
        """Return the first n examples."""
        if df:
            self.replace_df(df)
        pool = self.fewshot_docs()
        if n > len(pool):
            raise AssertionError(f"Cannot take {n} of {len(pool)} examples")
        return pool[:n]


class DrawnSampler(ContextSampler):
    """Returns the examples that were already drawn for a document."""

    def sample(
        self,
        n: int,
        eval_doc: dict[str, Any] | None = None,
        df: Sequence[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Sequence[dict[str, Any]]:
        """Return the first n examples."""
        if n > len(self.df):
            raise ValueError(f"{n} examples were requested, but {len(self.df)} were drawn: set `num_fewshot`")
        return list(self.df[:n])


SAMPLER_REGISTRY = sampler_registry


def get_sampler(name: str) -> type[ContextSampler]:
    """Return the sampler class of a name."""
    return sampler_registry.get(name)
