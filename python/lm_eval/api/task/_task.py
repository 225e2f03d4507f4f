"""The base class of tasks.

A class task overrides the hooks that differ from its configuration: where documents come from, how prompts look,
which requests they make, how answers are scored.
"""

from __future__ import annotations

import abc
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any

from lm_eval import _host, _patches
from lm_eval.api import _context
from lm_eval.api._types import Doc, OutputType
from lm_eval.api.instance import Instance
from lm_eval.api.samplers import ContextSampler, DrawnSampler, get_sampler
from lm_eval.api.task import _document, _steps
from lm_eval.api.task._documents import Documents
from lm_eval.api.task._values import FIELDS, copied
from lm_eval.api.utils import Message, maybe_delimit, requires_delimiter
from lm_eval.config.task import FewshotConfig, TaskConfig

if TYPE_CHECKING:
    from lm_eval.scorers import Scorer

logger = logging.getLogger(__name__)

ALL_OUTPUT_TYPES = ["loglikelihood", "multiple_choice", "loglikelihood_rolling", "generate_until"]
"""The output types of tasks."""

_DEFAULT_SEED = 1234

_IGNORED = ("_aggregation_list", "_filters", "_higher_is_better", "_metric_fn_kwargs", "_metric_fn_list")
"""Attributes of tasks in 0.4.13 that an evaluation here has no use for."""


class Task(Documents, abc.ABC):
    """A benchmark: documents, prompts, requests and scores.

    Class attributes are defaults, overridden by `dataset_path`, `dataset_name` and `output_type` of the
    configuration. Data is loaded on first use. The configuration can be the only argument: `Task(TaskConfig(…))`.
    """

    VERSION: int | str | None = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    OUTPUT_TYPE: OutputType | None = None
    MULTIMODAL: bool = False
    UNSAFE_CODE: bool = False
    CONFIG: TaskConfig | None = None

    _is_plain = True
    """The methods of this class follow the configuration, so the engine need not call them."""

    def __init__(
        self,
        data_dir: str | Mapping[str, Any] | TaskConfig | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | TaskConfig | None = None,
    ) -> None:
        if isinstance(data_dir, (TaskConfig, Mapping)):
            if config is not None:
                raise TypeError("The configuration of a task is given twice")
            config = data_dir
        self._given = self._fields_given(config)
        self._config = config if isinstance(config, TaskConfig) else TaskConfig(**copied(self._given))
        self._check_output_type()
        # Distinguishes later changes from the configuration as given.
        self._normal = self._config.to_dict(keep_callable=True)
        if self._config.output_type not in ALL_OUTPUT_TYPES:
            raise ValueError(
                f"`output_type` must be one of {', '.join(ALL_OUTPUT_TYPES)}, not `{self._config.output_type}`"
            )
        self.OUTPUT_TYPE = self._config.output_type
        version = "Yaml" if self.VERSION is None and self._is_configurable else self.VERSION
        self.VERSION = (self._config.metadata or {}).get("version", version)
        self.DATASET_PATH = self._config.dataset_path or self.DATASET_PATH
        self.DATASET_NAME = self._config.dataset_name or self.DATASET_NAME
        self.MULTIMODAL = self.MULTIMODAL or bool(self._config.doc_to_image or self._config.doc_to_audio)
        self.UNSAFE_CODE = self.UNSAFE_CODE or bool(self._config.unsafe_code)
        self._dataset: Any = None
        self._downloaded: dict[str, Any] = {}
        self._sampler: ContextSampler | None = None
        self._fewshot_seed: int | None = _DEFAULT_SEED
        self._drawn: list[Doc] = []
        self._has_own_sampler = False
        self._is_compat_04 = os.environ.get("LM_EVAL_COMPAT") == "0.4"
        self._instances: list[Instance[Any, Any]] | None = None
        self._folders: list[str] = []
        self._scorers: list[Scorer] | None = None
        self._scorers_built: Any = None
        self._owners: list[Any] | None = None
        self._may_run_code = False
        self._attributes: frozenset[str] | None = None
        self.fewshot_rnd: Random | None = None

    def _fields_given(self, config: Mapping[str, Any] | TaskConfig | None) -> dict[str, Any]:
        """Return the configuration as given, merged over the fields that the class sets."""
        fields = {} if self.CONFIG is None else self.CONFIG.to_dict(keep_callable=True)
        if isinstance(config, TaskConfig):
            fields = config._definition()
        elif config:
            fields.update(copied(config))
            if "class" in fields:
                # The entire task file was passed: it names the class, and may have keys for it.
                fields = {name: value for name, value in fields.items() if name in FIELDS}
        implied = self._implied_output_type(fields)
        if implied is not None:
            fields.setdefault("output_type", implied)
        return fields

    def _implied_output_type(self, fields: Mapping[str, Any]) -> str | None:
        """Return the output type of a configuration that names none."""
        # Reference: for a `ConfigurableTask` the configuration decides.
        return None if isinstance(self, ConfigurableTask) else self.OUTPUT_TYPE

    def _check_output_type(self) -> None:
        """Check the output type of the configuration; a `TaskConfig` may have one that nobody chose."""

    @classmethod
    def from_config(cls, config: TaskConfig | Mapping[str, Any]) -> Task:
        """Make a task of the class for its output type; a user-defined class makes its own."""
        from lm_eval.api.task._output_types import TASK_CLASSES

        if cls not in (Task, ConfigurableTask):
            return cls(config=config)
        if not isinstance(config, TaskConfig):
            config = TaskConfig(**copied(config))
        return TASK_CLASSES.get(config.output_type, ConfigurableTask)(config=config)

    @property
    def config(self) -> TaskConfig:
        """The configuration of the task."""
        return self._config

    @property
    def fewshot_cfg(self) -> FewshotConfig:
        """The configuration of the few-shot examples."""
        return self._config.fewshot_config

    @property
    def task_name(self) -> str:  # type: ignore[override]
        """The name of the task, or of its class."""
        return self._config.task or type(self).__name__

    @property
    def is_multimodal(self) -> bool:
        """Whether documents have images or audio."""
        return self.MULTIMODAL

    def get_config(self, key: str) -> Any:
        """Return a field of the configuration, or `None`."""
        return getattr(self._config, key, None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set a field of the configuration; with `update`, merge a mapping into it."""
        if update:
            current = getattr(self._config, key, None) or {}
            if not isinstance(current, dict):
                raise TypeError(f"`{key}` is not a mapping")
            value = {**current, **value}
        setattr(self._config, key, value)

    def dump_config(self) -> dict[str, Any]:
        """Return the configuration as a dictionary."""
        return self._config.to_dict()

    # Prompts and requests

    @property
    def sampler(self) -> ContextSampler:
        """The sampler of few-shot examples."""
        if self._drawn and not self._has_own_sampler:
            # The engine has drawn them, in document order.
            return DrawnSampler(self._drawn)
        if self._sampler is None:
            fewshot: FewshotConfig = self._config.fewshot_config
            kind = get_sampler(fewshot.sampler) if isinstance(fewshot.sampler, str) else fewshot.sampler
            self._sampler = kind(
                list(self.fewshot_docs()), rnd=self._fewshot_seed, fewshot_indices=fewshot.fewshot_indices
            )
        return self._sampler

    @sampler.setter
    def sampler(self, sampler: ContextSampler) -> None:
        self._sampler = sampler
        self._has_own_sampler = True

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        """Restart the sampler from this seed."""
        self._fewshot_seed = seed
        self.fewshot_rnd = Random(seed)
        if self._sampler is not None:
            self._sampler.set_rnd(seed)

    def fewshot_examples(self, num_fewshot: int, doc: Doc) -> list[Doc]:
        """Return the examples for a document."""
        if num_fewshot <= 0:
            return []
        sampler, excluded = self.sampler, self._excludes_evaluated()
        if self._is_compat_04 and excluded and not isinstance(sampler, DrawnSampler):
            # Reference: in the 0.4 line no sampler knows the document; one extra example is drawn, `first_n` included.
            return sampler.rm_eval_doc(doc, sampler.sample(num_fewshot + 1), num_fewshot)
        return list(sampler.sample(num_fewshot, eval_doc=doc if excluded else None))

    def build_qa_turn(
        self,
        *,
        q: str | None = None,
        c: list[str] | None = None,
        a: Any = None,
        gen_prefix: str | None = None,
        tgt_delim: str = " ",
        few_delim: str = "\n\n",
    ) -> list[Message]:
        """Return the messages of a question, including its answer if given."""
        return _context.turn(
            q or "", a, c, prefix=gen_prefix, target_delimiter=tgt_delim, fewshot_delimiter=few_delim
        )

    def multiple_input_context(
        self,
        prev_context: list[Message] | None,
        gen_prefix: str | None,
        q: list[str],
        chat_template: Callable[..., Any] | None = None,
        fewshot_as_multiturn: bool = False,
    ) -> list[Any]:
        """Return the prompt of each of several questions that follow the same messages."""
        return [
            _context.render(
                [*(prev_context or []), *self.build_qa_turn(q=one, gen_prefix=gen_prefix, tgt_delim="", few_delim="")],
                chat_template,
                fewshot_as_multiturn,
                gen_prefix,
            )
            for one in q
        ]

    def fewshot_context(
        self,
        doc: Doc,
        num_fewshot: int = 0,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., Any] | None = None,
        gen_prefix: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the prompt of a document with its examples."""
        description = self._resolve(self._config.description, doc)
        system = maybe_delimit(system_instruction, description, self._config.fewshot_delimiter)
        examples = self.fewshot_examples(num_fewshot, doc)
        template = chat_template if apply_chat_template else None
        messages = _context.messages_before(self, doc, examples, system)
        question = _document.question(self, doc)
        if isinstance(question, list):
            return self.multiple_input_context(messages, gen_prefix, question, template, fewshot_as_multiturn)
        messages += self.build_qa_turn(
            q=question, gen_prefix=gen_prefix, tgt_delim=self._config.target_delimiter, few_delim=""
        )
        return _context.render(messages, template, fewshot_as_multiturn, gen_prefix)

    def construct_requests(self, doc: Doc, ctx: Any, **kwargs: Any) -> Any:
        """Return the request, or the list of requests, of a document."""
        chat = kwargs.pop("apply_chat_template", False)
        kwargs.pop("chat_template", None)
        target = self.doc_to_target(doc)
        if self.OUTPUT_TYPE == "multiple_choice":
            return self._choice_requests(doc, ctx, target, chat, kwargs)
        arguments: tuple[Any, ...]
        if self.OUTPUT_TYPE == "generate_until":
            arguments = (ctx, deepcopy(self._config.generation_kwargs))
        elif self.OUTPUT_TYPE == "loglikelihood":
            arguments, target = (ctx, target), 0
        elif self._is_compat_04:
            arguments, target = (target,), 0
        else:
            arguments, target = ("", target), 0
        request_type: Any = self.OUTPUT_TYPE
        return Instance(
            request_type=request_type, doc=doc, arguments=arguments, idx=0, target=target, **kwargs
        )

    def _choice_requests(
        self, doc: Doc, ctx: Any, target: Any, chat: bool, kwargs: dict[str, Any]
    ) -> list[Instance[Any, Any]]:
        delimiter = self._config.target_delimiter
        prefix = self._config.gen_prefix
        if chat and not (isinstance(prefix, str) and prefix and not prefix[-1].isspace()):
            delimiter = ""
        if isinstance(ctx, list) and (inputs := _document.inputs(self, doc)):
            # The options are the contexts, and the target is the continuation of each.
            gold, continuation = inputs
            pairs = [(context, continuation) for context in ctx]
        else:
            gold, pairs = target, [(ctx, choice) for choice in self.doc_to_choice(doc)]
        requests: list[Instance[Any, Any]] = []
        for context, choice in pairs:
            delimited = (
                self._is_compat_04 or not isinstance(context, str) or requires_delimiter(context, choice)
            )
            request: Instance[Any, Any] = Instance(
                request_type="loglikelihood",
                doc=doc,
                arguments=(context, (delimiter if delimited else "") + choice),
                idx=len(requests),
                target=gold,
                **kwargs,
            )
            request.metadata["option_text"] = choice
            requests.append(request)
        if _document.scores_mutual_information(self):
            requests += [_document.unconditional(request, idx) for idx, request in enumerate(requests, len(requests))]
        return requests

    def build_all_requests(
        self,
        *,
        limit: int | None = None,
        samples: Iterable[int] | None = None,
        rank: int = 0,
        world_size: int = 1,
        cache_requests: bool = False,
        rewrite_requests_cache: bool = False,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., Any] | None = None,
        tokenizer_name: str = "",
        **kwargs: Any,
    ) -> list[Instance[Any, Any]]:
        """Make the requests of all documents, store them in `instances`, and return them.

        The requests-cache arguments have no effect: building prompts is faster than reading them.
        """
        build = _steps.build_here if _host.is_served() else _steps.build_requests
        instances = build(
            self,
            limit=limit,
            samples=samples,
            rank=rank,
            world_size=world_size,
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
        )
        if not instances:
            raise ValueError(f"The task `{self.task_name}` has no documents to make requests from")
        self._instances = instances
        return instances

    @property
    def instances(self) -> list[Instance[Any, Any]] | None:
        """The requests made by `build_all_requests`."""
        return self._instances

    # Scores

    def process_results(self, doc: Doc, results: Any) -> Any:
        """Return the scores of a document by metric; `None` leaves scoring to the task's scorer.

        By the rules of the 0.4 line (`LM_EVAL_COMPAT=0.4`), the task's metrics score the filtered answers here.
        """
        process = self._config.process_results
        if callable(process):
            return process(doc, results)
        return _document.process_results(self, doc, results) if self._is_compat_04 else None

    @property
    def scorers(self) -> list[Scorer]:
        """One scorer per pipeline; `process_instances` fills them."""
        config = self._config
        chosen = copied([config.output_type, config._pipelines(), config.scorer, config.multiple_targets])
        if self._scorers is None or self._scorers_built[0] != chosen:
            self._scorers = _steps.build_scorers(self)
            self._scorers_built = (chosen, _steps.state_of(self._scorers))
        return self._scorers

    @property
    def _has_own_scorers(self) -> bool:
        """Whether the caller has changed the scorers of this task."""
        scorers = self.scorers
        return bool(_steps.state_of(scorers) != self._scorers_built[1])

    def apply_filters(self) -> list[Instance[Any, Any]] | None:
        """Run the filters over the answers in `resps`, and store the outcome in `filtered_resps` of each request."""
        _steps.apply_filters(self)
        return self._instances

    def process_instances(self, *, confirm_run_unsafe_code: bool = False) -> None:
        """Filter and score the answers in `resps`, and store the values in `scorers`."""
        self._may_run_code = confirm_run_unsafe_code
        _steps.process_instances(self)

    def aggregate(self, bootstrap_iters: int | None = 100000) -> tuple[dict[str, Any], int]:
        """Return the results by `metric,pipeline`, and the number of documents that have values."""
        return _steps.aggregate(self, bootstrap_iters)

    def _export_reduced(self) -> dict[str, dict[int, Any]]:
        """Return the values of all documents by pipeline, to be merged with those of other processes."""
        exported = {scorer.name: scorer.export_reduced() for scorer in self.scorers}
        return {name: values for name, values in exported.items() if values}

    def _import_reduced(self, data: Mapping[str, Mapping[int, Any]]) -> None:
        """Take the merged values of all processes."""
        for scorer in self.scorers:
            scorer.import_reduced(dict(data.get(scorer.name, {})))

    def aggregation(self) -> Mapping[str, Callable[..., Any]]:
        """Return the aggregation of each metric."""
        metrics = [metric for scorer in self.scorers for metric in scorer.metrics or ()]
        return {metric.name: metric.aggregation for metric in metrics if metric.aggregation is not None}

    def higher_is_better(self) -> Mapping[str, bool]:
        """Return whether higher is better, by metric."""
        return {name: higher for scorer in self.scorers for name, higher in scorer.higher_is_better.items()}

    def override_metric(self, metric_name: str) -> None:
        """Score with a single metric, without filters."""
        self._config.metric_list = [{"metric": metric_name, "kwargs": {}}]
        self._config.filter_list = [
            {"name": "none", "filter": [], "metric_list": list(self._config.metric_list)}
        ]
        self._config.process_results = None
        self._config.scorer = None

    def set_repeats(self, repeats: int) -> None:
        """Set the number of answers per document; only generations can differ."""
        if repeats < 1:
            raise ValueError(f"`repeats` must be at least 1, not {repeats}")
        if self.OUTPUT_TYPE != "generate_until":
            logger.warning("`%s` does not generate, so its requests are not repeated", self.task_name)
            return
        self._config.repeats = repeats

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Set the number of examples; a task whose definition sets 0 keeps it."""
        if self._config.num_fewshot == 0:
            logger.info("`%s` has no examples: its definition sets `num_fewshot` to 0", self.task_name)
            return
        self._config.num_fewshot = num_fewshot

    @classmethod
    def _overridden_hooks(cls) -> list[str]:
        """Return the names of the public methods that a subclass redefines."""
        return cls._defined_outside(tuple(base for base in cls.__mro__ if "_is_plain" in vars(base)))

    @classmethod
    def _defined_outside(cls, own: tuple[type, ...]) -> list[str]:
        """Return the names of the public methods that are inherited from other classes than these."""
        names = [name for base in Task.__mro__[:-1] for name in vars(base) if not name.startswith("_")]
        definers = {name: next((base for base in cls.__mro__ if name in vars(base)), Task) for name in names}
        changed = _patches.changed_names(cls)
        return sorted(name for name, definer in definers.items() if definer not in own or name in changed)

    def _hooks(self) -> list[str]:
        """Return the names of this object's methods that the engine has to call."""
        return sorted({*self._overridden_hooks(), *self._own_methods()})

    def _changed_methods(self) -> set[str]:
        """Return the names of the public methods that a script has replaced, in this object or in its classes."""
        changed = {name for name in _patches.changed_names(type(self)) if not name.startswith("_")}
        # Documents that were loaded by the script's method are sent as they are.
        return {*self._own_methods(), *changed} - ({"download"} if self._has_own_data else set())

    def _own_methods(self) -> list[str]:
        """Return the names of the methods that a script has replaced in this object."""
        own = [name for name, value in vars(self).items() if not name.startswith("_") and callable(value)]
        replaced = [name for name in own if callable(getattr(Task, name, None))]
        # A sampler of the script draws the examples.
        return [*replaced, *(["fewshot_examples"] if self._has_own_sampler else [])]

    def _refuse_ignored(self, besides: tuple[str, ...] = ()) -> None:
        """Raise if a class or a script replaces something in this task that a run would ignore, besides some names."""
        from lm_eval._refusals import INSTEAD_OF_METHODS

        later = vars(self).keys() - (vars(self).keys() if self._attributes is None else self._attributes)
        ignored = [name for name in _IGNORED if name in later]
        methods = _patches.uncalled(type(self)).intersection(self._hooks()).difference(besides)
        for name in (*ignored, *sorted(methods)):
            raise NotImplementedError(
                f"`{name}` of `{self.task_name}` was replaced, but a run would ignore that: {INSTEAD_OF_METHODS}"
            )

    @property
    def _is_configurable(self) -> bool:
        """Whether this is a task of the newer kind, defined by its configuration."""
        return isinstance(self, ConfigurableTask) or type(self) is Task

    @property
    def _example_delimiter(self) -> str:
        """The delimiter between question and answer of an example."""
        # Reference: older classes concatenate them without a delimiter.
        return self._config.fewshot_config.target_delimiter if self._is_configurable else ""

    def _excludes_evaluated(self) -> bool:
        """Return whether a document must be excluded from its own examples."""
        return bool(self._config.fewshot_config.split == self._config.test_split)


class ConfigurableTask(Task):
    """A task defined by its configuration, unless a subclass overrides methods."""

    VERSION: int | str | None = "Yaml"

    _is_plain = True

    # Scripts replace it in both classes, and each replacement calls the method that it found.
    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the data and set `dataset` to its splits by name."""
        Documents.download(self, dataset_kwargs, **kwargs)
