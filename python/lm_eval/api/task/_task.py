"""The base class of tasks.

A class task overrides the hooks that differ from what its configuration says: where documents come from, how
prompts look, which requests they lead to, how answers are scored.
"""

from __future__ import annotations

import abc
import ast
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import fields
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from lm_eval import _host
from lm_eval.api import _context
from lm_eval.api._types import Doc, OutputType
from lm_eval.api.instance import Instance
from lm_eval.api.samplers import ContextSampler, DrawnSampler, get_sampler
from lm_eval.api.task import _steps
from lm_eval.api.utils import maybe_delimit, requires_delimiter
from lm_eval.config.task import FewshotConfig, TaskConfig
from lm_eval.utils import create_iterator

if TYPE_CHECKING:
    from lm_eval.scorers import Scorer

logger = logging.getLogger(__name__)

ALL_OUTPUT_TYPES = ["loglikelihood", "multiple_choice", "loglikelihood_rolling", "generate_until"]
"""What a task can ask of a model."""

_DEFAULT_SEED = 1234


class Task(abc.ABC):
    """A benchmark: documents, prompts, requests and scores.

    Class attributes are defaults; `dataset_path`, `dataset_name` and `output_type` of the configuration win
    over them. Data is loaded when it is first asked for. The configuration can be the only argument:
    `Task(TaskConfig(…))`.
    """

    VERSION: int | str | None = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    OUTPUT_TYPE: OutputType | None = None
    MULTIMODAL: bool = False
    UNSAFE_CODE: bool = False
    CONFIG: TaskConfig | None = None

    _is_plain = True
    """The methods of this class do what the configuration says, so the engine need not call them."""

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
        self._config = config if isinstance(config, TaskConfig) else TaskConfig(**_copied(self._given))
        self._check_output_type()
        # What tells later changes of the configuration from what was given.
        self._normal = self._config.to_dict(keep_callable=True)
        if self._config.output_type not in ALL_OUTPUT_TYPES:
            raise ValueError(
                f"`output_type` is one of {', '.join(ALL_OUTPUT_TYPES)}, not `{self._config.output_type}`"
            )
        self.OUTPUT_TYPE = self._config.output_type
        version = "Yaml" if self.VERSION is None and self._is_configurable else self.VERSION
        self.VERSION = (self._config.metadata or {}).get("version", version)
        self.DATASET_PATH = self._config.dataset_path or self.DATASET_PATH
        self.DATASET_NAME = self._config.dataset_name or self.DATASET_NAME
        self.MULTIMODAL = self.MULTIMODAL or bool(self._config.doc_to_image or self._config.doc_to_audio)
        self.UNSAFE_CODE = self.UNSAFE_CODE or bool(self._config.unsafe_code)
        self._dataset: Any = None
        self._sampler: ContextSampler | None = None
        self._fewshot_seed: int | None = _DEFAULT_SEED
        self._drawn: list[Doc] = []
        self._has_own_sampler = False
        self._is_compat_04 = False
        self._instances: list[Instance[Any, Any]] | None = None
        self._folders: list[str] = []
        self._scorers: list[Scorer] | None = None
        self._scorers_built: Any = None
        self._owners: list[Any] | None = None
        self._may_run_code = False
        self.fewshot_rnd: Random | None = None

    def _fields_given(self, config: Mapping[str, Any] | TaskConfig | None) -> dict[str, Any]:
        """Return the fields of the configuration as they are given, over those that the class sets."""
        fields = {} if self.CONFIG is None else self.CONFIG.to_dict(keep_callable=True)
        if isinstance(config, TaskConfig):
            fields = config._definition()
        elif config:
            fields.update(_copied(config))
            if "class" in fields:
                # The whole file was handed on: it names the class, and may have keys for it.
                fields = {name: value for name, value in fields.items() if name in _FIELDS}
        implied = self._implied_output_type(fields)
        if implied is not None:
            fields.setdefault("output_type", implied)
        return fields

    def _implied_output_type(self, fields: Mapping[str, Any]) -> str | None:
        """Return the output type of a configuration that names none."""
        # Reference: that of a `ConfigurableTask` is what its configuration says.
        return None if isinstance(self, ConfigurableTask) else self.OUTPUT_TYPE

    def _check_output_type(self) -> None:
        """Check the output type of the configuration; a `TaskConfig` may have got one that nobody chose."""

    @classmethod
    def from_config(cls, config: TaskConfig | Mapping[str, Any]) -> Task:
        """Make a task of the class that its output type asks for; a class of one's own makes its own."""
        from lm_eval.api.task import KINDS

        if cls not in (Task, ConfigurableTask):
            return cls(config=config)
        if not isinstance(config, TaskConfig):
            config = TaskConfig(**_copied(config))
        return KINDS.get(config.output_type, ConfigurableTask)(config=config)

    @property
    def config(self) -> TaskConfig:
        """The configuration."""
        return self._config

    @property
    def fewshot_cfg(self) -> FewshotConfig:
        """The configuration of the examples."""
        return self._config.fewshot_config

    @property
    def task_name(self) -> str:
        """The name of the task, or of its class."""
        return self._config.task or type(self).__name__

    @property
    def is_multimodal(self) -> bool:
        """Whether documents have images or sounds."""
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

    # Documents

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the data and set `dataset` to its splits by name."""
        options = {key: value for key, value in (dataset_kwargs or {}).items() if key != "trust_remote_code"}
        if callable(self._config.custom_dataset):
            self.dataset = self._config.custom_dataset(**{**options, **(self._config.metadata or {})})
        else:
            self.dataset = _host.load_dataset(self.DATASET_PATH, self.DATASET_NAME, **options)

    @property
    def dataset(self) -> Any:
        """The splits of the data set by name."""
        if self._dataset is None:
            # Older classes have other parameters here, so nothing is passed that need not be.
            options = self._config.dataset_kwargs
            self.download(*([options] if options else []))
        return self._dataset

    @dataset.setter
    def dataset(self, dataset: Any) -> None:
        self._dataset = dataset

    def has_training_docs(self) -> bool:
        """Return whether there are training documents."""
        return self._config.training_split is not None

    def has_validation_docs(self) -> bool:
        """Return whether there are validation documents."""
        return self._config.validation_split is not None

    def has_test_docs(self) -> bool:
        """Return whether there are test documents."""
        return self._config.test_split is not None

    def training_docs(self) -> Any:
        """Return the training documents."""
        return self._split(self._config.training_split)

    def validation_docs(self) -> Any:
        """Return the validation documents."""
        return self._split(self._config.validation_split)

    def test_docs(self) -> Any:
        """Return the test documents."""
        return self._split(self._config.test_split)

    def _split(self, name: str | None, process: Callable[..., Any] | None = None) -> Any:
        if name is None:
            return []
        process = process or self._config.process_docs
        return self.dataset[name] if process is None else process(self.dataset[name])

    def fewshot_docs(self) -> Any:
        """Return the documents that examples are drawn from."""
        fewshot: FewshotConfig = self._config.fewshot_config
        if fewshot.split is not None:
            documents = self.dataset[fewshot.split]
            return documents if fewshot.process_docs is None else fewshot.process_docs(documents)
        if fewshot.samples is not None:
            return fewshot.samples() if callable(fewshot.samples) else fewshot.samples
        if self.has_training_docs():
            return self.training_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        return self.test_docs()

    @property
    def eval_docs(self) -> Any:
        """The documents that are evaluated."""
        if self.has_test_docs():
            return self.test_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        raise ValueError(f"The task `{self.task_name}` has neither test nor validation documents")

    def doc_iterator(
        self,
        *,
        rank: int = 0,
        limit: int | None = None,
        world_size: int = 1,
        samples: Iterable[int] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the evaluated documents with their numbers."""
        numbered: Iterable[tuple[int, Any]] = enumerate(self.eval_docs)
        if samples:
            wanted = set(samples)
            numbered = (pair for pair in numbered if pair[0] in wanted)
        return create_iterator(numbered, rank=rank, world_size=world_size, limit=limit or None)

    # Fields of a document

    def _resolve(self, value: Any, doc: Doc) -> Any:
        """Return what a field stands for: a function's value, a column, a rendered template or a constant."""
        if callable(value):
            return value(doc)
        if isinstance(value, list):
            return [_host.render_template(item, doc) if isinstance(item, str) else item for item in value]
        if isinstance(value, str):
            return doc[value] if value in doc else _host.render_template(value, doc) if value else ""
        if value is None or isinstance(value, int):
            return value
        raise ValueError(f"Cannot render {value!r}")

    def _example_field(self, hook: str, doc: Doc, override: Any) -> Any:
        """Return a field of an example; the few-shot configuration counts where it differs."""
        method = getattr(self, hook)
        is_own = override is None or override is getattr(self._config, hook)
        return method(doc) if is_own else method(doc, override)

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> Any:
        """Return the question of a document; `doc_to_text` takes the place of the configured field."""
        return self._resolve(self._config.doc_to_text if doc_to_text is None else doc_to_text, doc)

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        """Return the answer of a document: text or, for multiple choice, the number of an option."""
        target = self._resolve(self._config.doc_to_target if doc_to_target is None else doc_to_target, doc)
        if self.OUTPUT_TYPE != "multiple_choice":
            return _as_list(target) if self._config.multiple_targets else target
        if isinstance(target, str) and target.isdigit():
            return int(target)
        target = _as_list(target)
        choices = self.doc_to_choice(doc)
        if isinstance(target, str) and choices and target in choices:
            return list(choices).index(target)
        return target

    def doc_to_choice(self, doc: Doc, doc_to_choice: Any = None) -> Any:
        """Return the options of a document."""
        field = self._config.doc_to_choice if doc_to_choice is None else doc_to_choice
        return list(field.values()) if isinstance(field, dict) else _as_list(self._resolve(field, doc))

    def doc_to_image(self, doc: Doc, doc_to_image: Any = None) -> Any:
        """Return the images of a document."""
        return self._resolve(self._config.doc_to_image if doc_to_image is None else doc_to_image, doc)

    def doc_to_audio(self, doc: Doc, doc_to_audio: Any = None) -> Any:
        """Return the sounds of a document."""
        return self._resolve(self._config.doc_to_audio if doc_to_audio is None else doc_to_audio, doc)

    def doc_to_prefix(self, doc: Doc) -> Any:
        """Return the text that the answer has to start with."""
        return self._resolve(self._config.gen_prefix, doc)

    def should_decontaminate(self) -> bool:
        """Return whether documents could be compared with training data."""
        return self._config.should_decontaminate

    def doc_to_decontamination_query(self, doc: Doc) -> Any:
        """Return the text to compare with training data."""
        return self._resolve(self._config.doc_to_decontamination_query, doc)

    def _process_doc(self, doc: Doc) -> Any:
        """Return a document as the task wants it; for subclasses that call it on each."""
        return doc

    @classmethod
    def count_bytes(cls, doc: str) -> int:
        """Return the number of bytes of a text."""
        return len(doc.encode("utf-8"))

    @classmethod
    def count_words(cls, doc: str) -> int:
        """Return the number of words of a text."""
        return len(re.split(r"\s+", doc))

    # Prompts and requests

    @property
    def sampler(self) -> ContextSampler:
        """What draws the few-shot examples."""
        if self._drawn and not self._has_own_sampler:
            # The engine has drawn them, in the order of the documents.
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
        """Draw examples from this seed on."""
        self._fewshot_seed = seed
        self.fewshot_rnd = Random(seed)
        if self._sampler is not None:
            self._sampler.set_rnd(seed)

    def fewshot_examples(self, num_fewshot: int, doc: Doc) -> list[Doc]:
        """Return the examples for a document."""
        if num_fewshot <= 0:
            return []
        excluded = self._config.fewshot_config.split == self._config.test_split
        return list(self.sampler.sample(num_fewshot, eval_doc=doc if excluded else None))

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
        messages = _context.messages_of(self, doc, examples, system, gen_prefix)
        template = chat_template if apply_chat_template else None
        return _context.render(messages, template, fewshot_as_multiturn, gen_prefix)

    def construct_requests(self, doc: Doc, ctx: Any, **kwargs: Any) -> Any:
        """Return the request, or the list of requests, that a document leads to."""
        chat = kwargs.pop("apply_chat_template", False)
        kwargs.pop("chat_template", None)
        target = self.doc_to_target(doc)
        if self.OUTPUT_TYPE == "multiple_choice":
            return self._choice_requests(doc, ctx, target, chat, kwargs)
        arguments: tuple[Any, Any]
        if self.OUTPUT_TYPE == "generate_until":
            arguments = (ctx, deepcopy(self._config.generation_kwargs))
        elif self.OUTPUT_TYPE == "loglikelihood":
            arguments, target = (ctx, target), 0
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
        requests = []
        for idx, choice in enumerate(self.doc_to_choice(doc)):
            delimited = (
                self._is_compat_04 or not isinstance(ctx, str) or requires_delimiter(ctx, choice)
            )
            request: Instance[Any, Any] = Instance(
                request_type="loglikelihood",
                doc=doc,
                arguments=(ctx, (delimiter if delimited else "") + choice),
                idx=idx,
                target=target,
                **kwargs,
            )
            request.metadata["option_text"] = choice
            requests.append(request)
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
        """Make the requests of all documents, keep them in `instances`, and return them.

        The arguments of the requests cache have no effect: prompts are built faster than they could be read.
        """
        build = self._build_here if _host.is_served() else partial(_steps.build_requests, self)
        instances = build(
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
            raise ValueError(f"No documents lead to requests in the task `{self.task_name}`")
        self._instances = instances
        return instances

    def _build_here(
        self,
        *,
        limit: int | None,
        samples: Iterable[int] | None,
        rank: int,
        world_size: int,
        system_instruction: str | None,
        apply_chat_template: bool,
        fewshot_as_multiturn: bool,
        chat_template: Callable[..., Any] | None,
    ) -> list[Instance[Any, Any]]:
        """Make requests in a process whose engine waits for it, and which therefore cannot ask another one."""
        instances: list[Instance[Any, Any]] = []
        for doc_id, doc in self.doc_iterator(rank=rank, limit=limit, samples=samples, world_size=world_size):
            context = self.fewshot_context(
                doc,
                num_fewshot=max(self._config.num_fewshot or 0, 0),
                system_instruction=system_instruction,
                apply_chat_template=apply_chat_template,
                fewshot_as_multiturn=fewshot_as_multiturn,
                chat_template=chat_template,
                gen_prefix=self.doc_to_prefix(doc),
            )
            made = self.construct_requests(
                doc=doc,
                ctx=context,
                metadata=(self.task_name, doc_id, self._config.repeats),
                apply_chat_template=apply_chat_template,
                chat_template=chat_template,
            )
            instances += made if isinstance(made, list) else [] if made is None else [made]
        return instances

    @property
    def instances(self) -> list[Instance[Any, Any]] | None:
        """The requests that `build_all_requests` made."""
        return self._instances

    # Scores

    def process_results(self, doc: Doc, results: Any) -> Any:
        """Return the scores of a document by metric; `None` leaves them to the task's scorer."""
        process = self._config.process_results
        return process(doc, results) if callable(process) else None

    @property
    def scorers(self) -> list[Scorer]:
        """A scorer for each pipeline; `process_instances` fills them."""
        config = self._config
        chosen = _copied([config.output_type, config.filter_list, config.scorer, config.multiple_targets])
        if self._scorers is None or self._scorers_built[0] != chosen:
            self._scorers = _steps.build_scorers(self)
            self._scorers_built = (chosen, _steps.state_of(self._scorers))
        return self._scorers

    @property
    def _has_own_scorers(self) -> bool:
        """Whether the program has changed the scorers of this task."""
        scorers = self.scorers
        return bool(_steps.state_of(scorers) != self._scorers_built[1])

    def apply_filters(self) -> list[Instance[Any, Any]] | None:
        """Run the filters over the answers in `resps`; `filtered_resps` of each request has the outcome."""
        _steps.apply_filters(self)
        return self._instances

    def process_instances(self, *, confirm_run_unsafe_code: bool = False) -> None:
        """Filter and score the answers in `resps`; the values are in `scorers` then."""
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
        """Score with one metric alone, without filters."""
        self._config.metric_list = [{"metric": metric_name, "kwargs": {}}]
        self._config.filter_list = [
            {"name": "none", "filter": [], "metric_list": list(self._config.metric_list)}
        ]
        self._config.process_results = None
        self._config.scorer = None

    def set_repeats(self, repeats: int) -> None:
        """Ask for several answers per document; only generated ones can differ."""
        if repeats < 1:
            raise ValueError(f"`repeats` is at least 1, not {repeats}")
        if self.OUTPUT_TYPE != "generate_until":
            logger.warning("`%s` generates nothing, so its requests are not repeated", self.task_name)
            return
        self._config.repeats = repeats

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Set the number of examples; a task whose definition says 0 keeps it."""
        if self._config.num_fewshot == 0:
            logger.info("`%s` has no examples by its definition", self.task_name)
            return
        self._config.num_fewshot = num_fewshot

    @classmethod
    def _overridden_hooks(cls) -> list[str]:
        """Return the names of the public methods that a subclass defines anew."""
        return cls._defined_outside(tuple(base for base in cls.__mro__ if "_is_plain" in vars(base)))

    @classmethod
    def _defined_outside(cls, own: tuple[type, ...]) -> list[str]:
        """Return the names of the public methods that come from other classes than these."""
        names = [name for name in vars(Task) if not name.startswith("_")]
        definers = {name: next((base for base in cls.__mro__ if name in vars(base)), Task) for name in names}
        return sorted(name for name, definer in definers.items() if definer not in own)

    def _hooks(self) -> list[str]:
        """Return the names of the methods of this object that the engine has to call."""
        return self._overridden_hooks()

    @property
    def _is_configurable(self) -> bool:
        """Whether this is a task of the newer kind, which is what its configuration says."""
        return isinstance(self, ConfigurableTask) or type(self) is Task

    @property
    def _example_delimiter(self) -> str:
        """What stands between question and answer of an example."""
        # Reference: classes of the older kind write them one behind the other.
        return self._config.fewshot_config.target_delimiter if self._is_configurable else ""

    def _excludes_evaluated(self) -> bool:
        """Return whether a document must not be among its own examples."""
        return bool(self._config.fewshot_config.split == self._config.test_split)


class ConfigurableTask(Task):
    """A task whose configuration says it all, unless a subclass says otherwise."""

    VERSION: int | str | None = "Yaml"

    _is_plain = True


_FIELDS = frozenset(item.name for item in fields(TaskConfig))


def _copied(value: Any) -> Any:
    """Return a value whose dictionaries and lists can be changed without changing those that are given."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _without_chat(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a request without those about conversations."""
    return {name: item for name, item in kwargs.items() if name not in ("apply_chat_template", "chat_template")}


def _as_list(value: Any) -> Any:
    """Return the list that a text is written as; anything else as it is."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not (text.startswith(("[", "(")) and text.endswith(("]", ")"))):
        return value
    try:
        parsed = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return value
    return list(parsed) if isinstance(parsed, (list, tuple)) else value
