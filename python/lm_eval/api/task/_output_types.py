"""Task classes by output type, and base classes of older class tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lm_eval.api._types import Doc, OutputType
from lm_eval.api.instance import Instance
from lm_eval.api.task._task import ConfigurableTask, Task
from lm_eval.api.task._values import without_chat
from lm_eval.defaults import default_gen_kwargs


class _FixedOutputType(ConfigurableTask):
    """A task whose class determines its output type."""

    _is_plain = True

    def _implied_output_type(self, fields: Mapping[str, Any]) -> str | None:
        return self.OUTPUT_TYPE

    def _check_output_type(self) -> None:
        config, implied = self._config, self._implied_output_type(self._given)
        if implied is None or config.output_type == implied:
            return
        if config.output_type != "generate_until":
            raise ValueError(f"`{type(self).__name__}` makes `{implied}` requests, not `{config.output_type}`")
        # The default of a `TaskConfig` made without an output type.
        config.output_type = implied  # type: ignore[assignment]
        if config.generation_kwargs == default_gen_kwargs(config.fewshot_delimiter):
            config.generation_kwargs = {}


class GenerateTask(_FixedOutputType):
    """A task that generates."""

    OUTPUT_TYPE: OutputType | None = "generate_until"

    _is_plain = True


class LoglikelihoodTask(_FixedOutputType):
    """A task that scores one continuation."""

    OUTPUT_TYPE: OutputType | None = "loglikelihood"

    _is_plain = True


class LoglikelihoodRollingTask(LoglikelihoodTask):
    """A task that scores entire strings."""

    OUTPUT_TYPE: OutputType | None = "loglikelihood_rolling"

    _is_plain = True


class MultipleChoiceTask(_FixedOutputType):
    """A task whose answer is one of several choices.

    Without `doc_to_choice` in its configuration it is of the older kind: documents have `choices`, and the index of
    the correct one under `gold`.
    """

    VERSION: int | str | None = None
    OUTPUT_TYPE: OutputType | None = "multiple_choice"

    def _implied_output_type(self, fields: Mapping[str, Any]) -> str | None:
        is_older = fields.get("doc_to_choice") is None and type(self) is not MultipleChoiceTask
        default = type(self).OUTPUT_TYPE == "multiple_choice"
        return "loglikelihood" if is_older and default else type(self).OUTPUT_TYPE

    @property
    def _is_configurable(self) -> bool:
        return self._config.doc_to_choice is not None or type(self) is MultipleChoiceTask

    def _hooks(self) -> list[str]:
        if not self._is_configurable:
            return sorted({*self._overridden_hooks(), *self._own_methods()})
        plain = tuple(base for base in type(self).__mro__ if "_is_plain" in vars(base))
        return sorted({*self._defined_outside((*plain, MultipleChoiceTask)), *self._own_methods()})

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        """Return the correct choice."""
        if self._is_configurable:
            return super().doc_to_target(doc, doc_to_target)
        return " " + doc["choices"][doc["gold"]]

    def construct_requests(self, doc: Doc, ctx: Any, **kwargs: Any) -> Any:
        """Return a request for each choice."""
        if self._is_configurable:
            return super().construct_requests(doc, ctx, **kwargs)
        kwargs = without_chat(kwargs)
        return [
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, f" {choice}"), idx=index, **kwargs)
            for index, choice in enumerate(doc["choices"])
        ]

    def process_results(self, doc: Doc, results: Any) -> Any:
        """Return whether the most likely choice is correct, unnormalised and normalised by length."""
        if self._is_configurable:
            return super().process_results(doc, results)
        likelihoods = [result[0] for result in results]
        per_letter = [
            likelihood / float(len(choice)) for likelihood, choice in zip(likelihoods, doc["choices"])
        ]

        def is_right(values: list[float]) -> float:
            return 1.0 if values.index(max(values)) == doc["gold"] else 0.0

        return {"acc": is_right(likelihoods), "acc_norm": is_right(per_letter)}

    def higher_is_better(self) -> Mapping[str, bool]:
        """Return that higher is better."""
        if self._is_configurable:
            return super().higher_is_better()
        return {"acc": True, "acc_norm": True}

    def aggregation(self) -> Mapping[str, Callable[..., Any]]:
        """Return the mean for both."""
        if self._is_configurable:
            return super().aggregation()
        from lm_eval.api.metrics import mean

        return {"acc": mean, "acc_norm": mean}


class PerplexityTask(Task):
    """A task of the older kind whose documents are strings that are scored in full."""

    OUTPUT_TYPE: OutputType | None = "loglikelihood_rolling"

    def has_training_docs(self) -> bool:
        """Return false: there are no examples."""
        return False

    def fewshot_examples(self, num_fewshot: int, doc: Any = None) -> list[Doc]:
        """Return an empty list; requesting examples is an error."""
        if num_fewshot != 0:
            raise ValueError(f"Perplexity tasks take no few-shot examples; `num_fewshot` is {num_fewshot}")
        return []

    def fewshot_context(  # type: ignore[override]
        self, doc: Any, num_fewshot: int = 0, **kwargs: Any
    ) -> Any:
        """Return an empty context; requesting examples is an error."""
        self.fewshot_examples(num_fewshot, doc)
        return ""

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> Any:
        """Return an empty string."""
        return ""

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> Any:
        """Return the document, which is the string to score."""
        return doc

    def doc_to_decontamination_query(self, doc: Any) -> Any:
        """Return the document, which is the string to score."""
        return doc

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """Return a request for the entire string."""
        if ctx:
            raise ValueError("A rolling log-likelihood request has no context")
        kwargs = without_chat(kwargs)
        request_type: Any = self.OUTPUT_TYPE
        return Instance(
            request_type=request_type, doc=doc, arguments=(self.doc_to_target(doc),), idx=0, **kwargs
        )

    def process_results(self, doc: Any, results: Any) -> Any:
        """Return the log-likelihood with the numbers of words and bytes."""
        (likelihood,) = results
        if isinstance(likelihood, tuple):
            likelihood = likelihood[0]
        text = self.doc_to_target(doc)
        words, size = self.count_words(text), self.count_bytes(text)
        return {
            "word_perplexity": (likelihood, words),
            "byte_perplexity": (likelihood, size),
            "bits_per_byte": (likelihood, size),
        }

    def higher_is_better(self) -> Mapping[str, bool]:
        """Return that lower is better."""
        return {"word_perplexity": False, "byte_perplexity": False, "bits_per_byte": False}

    def aggregation(self) -> Mapping[str, Callable[..., Any]]:
        """Return the perplexities over all documents."""
        from lm_eval.api.metrics import bits_per_byte, weighted_perplexity

        return {
            "word_perplexity": weighted_perplexity,
            "byte_perplexity": weighted_perplexity,
            "bits_per_byte": bits_per_byte,
        }


TASK_CLASSES: dict[str, type[ConfigurableTask]] = {
    "generate_until": GenerateTask,
    "loglikelihood": LoglikelihoodTask,
    "loglikelihood_rolling": LoglikelihoodRollingTask,
    "multiple_choice": MultipleChoiceTask,
}
"""The default task class by output type."""
