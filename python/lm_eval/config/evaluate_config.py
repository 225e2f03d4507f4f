"""Settings of a run."""

from __future__ import annotations

import glob
import json
import logging
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval._options import OwnSettings

if TYPE_CHECKING:
    from argparse import Namespace

    from lm_eval.tasks import TaskManager

__all__ = ["EvaluatorConfig"]

logger = logging.getLogger(__name__)

_SEEDS = [0, 1234, 1234, 1234]
_DICTS = ("model_args", "gen_kwargs", "metadata", "wandb_args", "wandb_config_args", "hf_hub_log_args")


@dataclass
class _Recorded:
    """The settings of the reference, in the order of its record."""

    config: str | None = None
    model: str = "hf"
    model_args: Any = field(default_factory=dict)
    tasks: Any = field(default_factory=list)
    num_fewshot: int | None = None
    repeats: int | None = None
    batch_size: int | str = 1
    max_batch_size: int | None = None
    device: str | None = "cuda:0"
    limit: float | None = None
    samples: Any = None
    use_cache: str | None = None
    cache_requests: Any = field(default_factory=dict)
    check_integrity: bool = False
    write_out: bool = False
    log_samples: bool = False
    output_path: str | None = None
    predict_only: bool = False
    system_instruction: str | None = None
    apply_chat_template: bool | str = False
    fewshot_as_multiturn: bool | None = None
    show_config: bool = False
    include_path: Any = None
    include_defaults: bool = True
    gen_kwargs: Any = None
    verbosity: str | None = None
    wandb_args: Any = field(default_factory=dict)
    wandb_config_args: Any = field(default_factory=dict)
    hf_hub_log_args: Any = field(default_factory=dict)
    seed: Any = field(default_factory=lambda: list(_SEEDS))
    trust_remote_code: bool = False
    confirm_run_unsafe_code: bool = False
    metadata: Any = None


@dataclass
class EvaluatorConfig(OwnSettings, _Recorded):
    """The settings of `lm-eval run`, named like its long options."""

    bootstrap_iters: int | None = field(default=100_000, repr=False)

    @classmethod
    def from_config(cls, config_path: str | os.PathLike[str]) -> EvaluatorConfig:
        """Return the settings of a YAML file below environment variables, validated."""
        file = cls.load_yaml_config(config_path)
        return cls(**{**file, **_environment(), "config": os.fspath(config_path)})._checked()

    @classmethod
    def from_cli(cls, namespace: Namespace) -> EvaluatorConfig:
        """Return the settings of parsed flags over environment variables over the file they name, validated."""
        known = {item.name for item in fields(cls)}
        given = {
            name: value for name, value in vars(namespace).items() if value is not None and name in known
        }
        file = cls.load_yaml_config(given["config"]) if given.get("config") else {}
        return cls(**{**file, **_environment(), **given})._checked()

    @staticmethod
    def load_yaml_config(config_path: str | os.PathLike[str]) -> dict[str, Any]:
        """Return the contents of a YAML settings file."""
        from lm_eval import _engine

        path = Path(config_path)
        if not path.is_file():
            raise FileNotFoundError(f"No such file: `{path}`")
        read: dict[str, Any] = _engine.call("read_config", path=str(path))
        return read

    def _checked(self) -> EvaluatorConfig:
        """Validate the settings and normalise them."""
        from lm_eval.utils import simple_parse_args_string

        for name in _DICTS:
            value = getattr(self, name)
            if value is None or isinstance(value, str):
                setattr(self, name, simple_parse_args_string(value))
        if self.tasks is None:
            raise ValueError("No tasks to evaluate; set `tasks`")
        if self.limit:
            logger.warning(
                "`limit` is for testing. Scores on a subset are not comparable with full runs."
            )
        self.log_samples = self.log_samples or self.predict_only
        if self.log_samples and not self.output_path:
            raise ValueError("`log_samples` and `predict_only` need an `output_path`")
        if self.fewshot_as_multiturn is None and self.apply_chat_template:
            self.fewshot_as_multiturn = True
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise ValueError("`fewshot_as_multiturn` needs `apply_chat_template`")
        if self.samples and self.limit is not None:
            raise ValueError("`samples` and `limit` cannot be combined")
        self.samples = _samples(self.samples)
        self.metadata = {**self.model_args, **self.metadata}
        if self.trust_remote_code:
            self.model_args["trust_remote_code"] = True
        self.seed = _seeds(self.seed)
        self.cache_requests = _cache_requests(self.cache_requests)
        return self

    def process_tasks(self, metadata: dict[str, Any] | None = None) -> TaskManager:
        """Replace `tasks` by known names and file paths; return the manager that knows them."""
        from lm_eval.tasks import TaskManager

        manager = TaskManager(
            include_path=self.include_path,
            include_defaults=self.include_defaults,
            metadata=self.metadata if metadata is None else metadata,
        )
        words = [self.tasks] if isinstance(self.tasks, str) else list(self.tasks)
        words = [word.strip() for given in words for word in str(given).split(",")]
        words = [word for word in words if word]
        if len(words) == 1 and os.path.isdir(words[0]) and words[0] not in manager.task_index:
            self.tasks = sorted(glob.glob(os.path.join(glob.escape(words[0]), "*.yaml")))
            return manager
        found: list[str] = []
        missing = []
        for word in words:
            names = sorted(glob.glob(word)) if word.endswith(".yaml") else manager.match_tasks([word])
            found += [name for name in names if name not in found]
            if not names or (names == [word] and not _is_known(word, manager)):
                missing.append(word)
        if missing:
            raise ValueError(
                f"Tasks not found: {', '.join(missing)}; `lm-eval ls tasks` lists all tasks"
            )
        self.tasks = found
        return manager


def _environment() -> dict[str, Any]:
    """Return the settings that environment variables give."""
    compat = os.environ.get("LM_EVAL_COMPAT")
    return {"compat": compat} if compat else {}


def _is_known(word: str, manager: TaskManager) -> bool:
    name = word.partition("::")[0].partition("@")[0]
    return word.endswith(".yaml") or name in manager.task_index


def _samples(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        if not os.path.isfile(given):
            raise ValueError(f"`samples` is neither JSON nor the path of a file: `{given}`") from None
        return json.loads(Path(given).read_text(encoding="utf-8"))


def _seeds(given: Any) -> list[int | None]:
    """Return four seeds."""
    parts = given.split(",") if isinstance(given, str) else given
    seeds = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    strings = [str(seed).strip() for seed in seeds]
    numbers = [None if text.lower() == "none" else int(text) for text in strings]
    if len(numbers) == 1:
        return numbers * 4
    if len(numbers) == 3:
        return [*numbers, _SEEDS[3]]
    if len(numbers) != 4:
        raise ValueError(f"Expected 1, 3 or 4 seeds, got {len(numbers)}")
    return numbers


def _cache_requests(given: Any) -> dict[str, bool]:
    """Return the request caching settings, in the form of the reference."""
    if isinstance(given, dict) and given:
        return given
    word = "true" if given is True else given or ""
    return {
        "cache_requests": word in ("true", "refresh"),
        "rewrite_requests_cache": word == "refresh",
        "delete_requests_cache": word == "delete",
    }
