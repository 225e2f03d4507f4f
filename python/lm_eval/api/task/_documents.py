"""The documents of a task and their fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lm_eval import _host, _patches
from lm_eval.api._types import Doc
from lm_eval.api.task._values import as_list
from lm_eval.config.task import FewshotConfig, TaskConfig
from lm_eval.utils import create_iterator


class Documents:
    """The data of a task."""

    DATASET_PATH: str | None
    DATASET_NAME: str | None
    OUTPUT_TYPE: Any
    task_name: str

    _config: TaskConfig
    _is_compat_04: bool
    _dataset: Any
    _downloaded: dict[str, Any]
    _fetch: Callable[[], None] | None = None
    """Loads the data of a task that the engine has defined."""
    _is_plain = True

    # Documents

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the data and set `dataset` to its splits by name."""
        load = _patches.replaced_loader()
        if load is not None and not callable(self._config.custom_dataset):
            self.dataset = load(path=self.DATASET_PATH, name=self.DATASET_NAME, **(dataset_kwargs or {}))
            return
        if self._fetch is not None:
            self._fetch()
            return
        options = {key: value for key, value in (dataset_kwargs or {}).items() if key != "trust_remote_code"}
        if callable(self._config.custom_dataset):
            self.dataset = self._config.custom_dataset(**{**options, **(self._config.metadata or {})})
        else:
            self.dataset = _host.load_dataset(self.DATASET_PATH, self.DATASET_NAME, **options)

    @property
    def dataset(self) -> Any:
        """The splits of the dataset by name."""
        if self._dataset is None:
            # Older classes have other parameters here, so only necessary arguments are passed.
            options = self._config.dataset_kwargs
            self.download(*([options] if options else []))
            if "download" not in _patches.changed_names(type(self)) and _patches.replaced_loader() is None:
                # The documents of a script's own function differ from those that the engine would load.
                self._downloaded = dict(self._dataset or {})
        return self._dataset

    @dataset.setter
    def dataset(self, dataset: Any) -> None:
        self._dataset = dataset

    @property
    def _has_own_data(self) -> bool:
        """Whether the caller has replaced the documents in `dataset` since they were loaded."""
        if self._dataset is None:
            return False
        known = self._downloaded
        return set(known) != set(self._dataset) or any(self._dataset[name] is not known[name] for name in known)

    def _own_data(self, **_: Any) -> Any:
        return self._dataset

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
        documents = self._first_split("training", "validation") or self.test_docs
        return documents()

    @property
    def eval_docs(self) -> Any:
        """The documents to evaluate."""
        documents = self._first_split("test", "validation")
        if documents is None:
            raise ValueError(f"The task `{self.task_name}` has neither test nor validation documents")
        return documents()

    def _first_split(self, *names: str) -> Callable[[], Any] | None:
        """Return the method for the documents of the first of these splits that the task has."""
        present = (name for name in names if getattr(self, f"has_{name}_docs")())
        return next((getattr(self, f"{name}_docs") for name in present), None)

    def doc_iterator(
        self,
        *,
        rank: int = 0,
        limit: int | None = None,
        world_size: int = 1,
        samples: Iterable[int] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the documents to evaluate with their ids."""
        numbered: Iterable[tuple[int, Any]] = enumerate(self.eval_docs)
        if samples:
            wanted = set(samples)
            numbered = (pair for pair in numbered if pair[0] in wanted)
        return create_iterator(numbered, rank=rank, world_size=world_size, limit=limit or None)

    def get_docs(self, subset: str) -> Any:
        """Return the documents of a split, processed by the task."""
        return self._split(subset)

    @property
    def task_docs(self) -> Any:
        """The documents to evaluate."""
        return self.eval_docs

    @property
    def features(self) -> list[str]:
        """The columns of the documents to evaluate."""
        docs = self.eval_docs
        return list(getattr(docs, "column_names", None) or docs[0])

    # Fields of a document

    @staticmethod
    def resolve_field(doc: Doc, field: str | None = None) -> Any:
        """Return a column, or the template rendered with the document."""
        if field is None:
            return None
        return doc[field] if field in doc else _host.render_template(field, doc)

    def _resolve(self, value: Any, doc: Doc) -> Any:
        """Return the value of a field: a function's result, a column, a rendered template or a constant."""
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
        """Return a field of an example; the few-shot configuration overrides the task's."""
        method = getattr(self, hook)
        is_own = override is None or override is getattr(self._config, hook)
        return method(doc) if is_own else method(doc, override)

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> Any:
        """Return the question of a document; `doc_to_text` overrides the configured field."""
        text = self._resolve(self._config.doc_to_text if doc_to_text is None else doc_to_text, doc)
        return as_list(text) if self._config.multiple_inputs else text

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        """Return the answer of a document: a string or, for multiple choice, the index of an option."""
        target = self._resolve(self._config.doc_to_target if doc_to_target is None else doc_to_target, doc)
        if self.OUTPUT_TYPE != "multiple_choice":
            # Reference: the 0.4 line has no switch for several targets; an empty list is the string `[]`.
            several = as_list(target) if self._config.multiple_targets or self._is_compat_04 else target
            return target if several == [] else several
        if isinstance(target, str) and target.isdigit():
            return int(target)
        target = as_list(target)
        choices = self.doc_to_choice(doc)
        if isinstance(target, str) and choices and target in choices:
            return list(choices).index(target)
        return target

    def doc_to_choice(self, doc: Doc, doc_to_choice: Any = None) -> Any:
        """Return the options of a document; `None` if the field is not a list."""
        field = self._config.doc_to_choice if doc_to_choice is None else doc_to_choice
        options = list(field.values()) if isinstance(field, dict) else as_list(self._resolve(field, doc))
        return None if isinstance(options, (str, int)) else options

    def doc_to_image(self, doc: Doc, doc_to_image: Any = None) -> Any:
        """Return the images of a document."""
        return self._resolve(self._config.doc_to_image if doc_to_image is None else doc_to_image, doc)

    def doc_to_audio(self, doc: Doc, doc_to_audio: Any = None) -> Any:
        """Return the audio of a document."""
        return self._resolve(self._config.doc_to_audio if doc_to_audio is None else doc_to_audio, doc)

    def doc_to_prefix(self, doc: Doc) -> Any:
        """Return the prefix that the answer has to start with."""
        return self._resolve(self._config.gen_prefix, doc)

    def should_decontaminate(self) -> bool:
        """Return whether documents can be checked for contamination."""
        return self._config.should_decontaminate

    def doc_to_decontamination_query(self, doc: Doc) -> Any:
        """Return the string to check for contamination."""
        return self._resolve(self._config.doc_to_decontamination_query, doc)

    def _process_doc(self, doc: Doc) -> Any:
        """Return a document processed by the task; for subclasses that call it on each."""
        return doc

    @classmethod
    def count_bytes(cls, doc: str) -> int:
        """Return the number of bytes of a string."""
        return len(doc.encode("utf-8"))

    @classmethod
    def count_words(cls, doc: str) -> int:
        """Return the number of words of a string."""
        return len(re.split(r"\s+", doc))
