"""Writes results and samples to files, as the command line does."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import random
import string
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval.loggers._hub import HubLog
from lm_eval.utils import handle_non_serializable, hash_string, sanitize_list, sanitize_model_name

__all__ = ["EvaluationTracker", "GeneralConfigTracker"]

logger = logging.getLogger(__name__)

_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
"""The arguments that may name a model, in order of precedence."""

_OWN = ("audit", "compat", "failed_requests", "judges", "bounds", "judging")
"""The keys of results that other harnesses do not have; in files they come last."""


class GeneralConfigTracker:
    """The facts about an evaluation other than its scores."""

    def __init__(self) -> None:
        self.model_source: str | None = None
        self.model_name: str | None = None
        self.model_name_sanitized: str | None = None
        self.system_instruction: str | None = None
        self.system_instruction_sha: str | None = None
        self.fewshot_as_multiturn: bool | None = None
        self.chat_template: str | None = None
        self.chat_template_sha: str | None = None
        self.start_time: float | None = time.perf_counter()
        self.end_time: float | None = None
        self.total_evaluation_time_seconds: str | None = None

    def log_experiment_args(
        self,
        model_source: str,
        model_args: str | Mapping[str, Any] | None,
        system_instruction: str | None,
        chat_template: str | None,
        fewshot_as_multiturn: bool,
    ) -> None:
        """Record the arguments of an evaluation."""
        name = _model_name(model_args)
        noted: dict[str, Any] = {"model_source": model_source, "fewshot_as_multiturn": fewshot_as_multiturn}
        noted.update(model_name=name, model_name_sanitized=sanitize_model_name(name))
        # Strings are recorded with their hash; an empty one has none.
        for field, text in (("system_instruction", system_instruction), ("chat_template", chat_template)):
            noted.update({field: text, f"{field}_sha": hash_string(text) if text else None})
        vars(self).update(noted)

    def log_end_time(self) -> None:
        """Record the end of an evaluation."""
        self.end_time = time.perf_counter()
        self.total_evaluation_time_seconds = str(self.end_time - (self.start_time or self.end_time))

    def _record(self) -> dict[str, Any]:
        """Return the record in the order of the files."""
        return {name: value for name, value in vars(self).items() if name not in ("start_time", "end_time")}


def _model_name(model_args: str | Mapping[str, Any] | None) -> str:
    """Return the name in a model's arguments, or eight random characters."""
    if isinstance(model_args, Mapping):
        given = next((str(model_args[key]) for key in _NAMING if key in model_args), "")
    else:
        text = model_args or ""
        given = next((text.split(f"{key}=")[1].split(",")[0] for key in _NAMING if f"{key}=" in text), "")
    return given or "".join(random.choices(string.ascii_lowercase + string.digits, k=8))


class EvaluationTracker:
    """Records an evaluation, writes it below `output_path`, and pushes the files to the hub if told to.

    The arguments are those of `--hf_hub_log_args`. A wrong token raises here, a failed upload when files are saved.
    """

    def __init__(
        self,
        output_path: str | os.PathLike[str] | None = None,
        hub_results_org: str = "",
        hub_repo_name: str = "",
        details_repo_name: str = "",
        results_repo_name: str = "",
        push_results_to_hub: bool = False,
        push_samples_to_hub: bool = False,
        public_repo: bool = False,
        token: str = "",
        leaderboard_url: str = "",
        point_of_contact: str = "",
        gated: bool = False,
    ) -> None:
        self.general_config_tracker = GeneralConfigTracker()
        self.output_path = None if output_path is None else os.fspath(output_path)
        self.date_id: str | None = None
        self._hub: HubLog | None = None
        if push_results_to_hub or push_samples_to_hub:
            if not self.output_path:
                raise ValueError("Pushing to the hub needs an `output_path`: files are pushed from there")
            self._hub = HubLog(
                hub_results_org=hub_results_org,
                hub_repo_name=hub_repo_name,
                details_repo_name=details_repo_name,
                results_repo_name=results_repo_name,
                push_results_to_hub=push_results_to_hub,
                push_samples_to_hub=push_samples_to_hub,
                public_repo=public_repo,
                token=token,
                leaderboard_url=leaderboard_url,
                point_of_contact=point_of_contact,
                gated=gated,
            )

    def save_results_aggregated(self, results: dict[str, Any], samples: dict[str, Any] | None = None) -> None:
        """Write the scores; `samples` are the samples by task, whose hashes are included."""
        self.general_config_tracker.log_end_time()
        if not self.output_path:
            return
        try:
            hashes = {task: _task_hash(records) for task, records in (samples or {}).items()}
            own = {name: results.pop(name) for name in _OWN if name in results}
            results.update({"task_hashes": hashes, **self.general_config_tracker._record(), **own})
            written = {name: value for name, value in results.items() if name != "samples"}
            text = json.dumps(written, indent=2, default=handle_non_serializable, ensure_ascii=False)
            self.date_id = _stamp()
            folder, stem = self._paths()
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{stem}_{self.date_id}.json"
            _write(path, text)
        except Exception as error:  # noqa: BLE001
            logger.warning("Cannot write the results: %r", error)
            return
        self._push(path, [])

    def save_results_samples(self, task_name: str, samples: list[dict[str, Any]]) -> None:
        """Write the samples of a task, one per line."""
        if not self.output_path:
            return
        try:
            self.date_id = self.date_id or _stamp()
            folder, _ = self._paths()
            folder.mkdir(parents=True, exist_ok=True)
            name = task_name.replace("::", "--").replace(":", "-")
            name = name.translate(dict.fromkeys(map(ord, "/\\\0"), "_"))
            lines = []
            for record in samples:
                _make_writable(record)
                lines.append(json.dumps(record, default=handle_non_serializable, ensure_ascii=False) + "\n")
            path = folder / f"samples_{name}_{self.date_id}.jsonl"
            with open(path, "a", encoding="utf-8") as file:
                file.writelines(lines)
        except Exception as error:  # noqa: BLE001
            logger.warning("Cannot write the samples of `%s`: %r", task_name, error)
            return
        self._push(None, [path])

    def recreate_metadata_card(self) -> None:
        """Write the card of the samples repository again, unless its author is someone else."""
        if self._hub is None:
            raise ValueError("Nothing is pushed to the hub, so there is no card to update")
        self._hub.refresh_card(self._hub.details_repo)

    def _push(self, results: Path | None, samples: list[Path]) -> None:
        if self._hub is not None:
            model = self.general_config_tracker.model_name_sanitized or "model"
            for line in self._hub.push(model, results, samples):
                logger.info("%s", line)

    def _paths(self) -> tuple[Path, str]:
        """Return the output folder, and the stem of the results file."""
        path = Path(self.output_path or "")
        if path.suffix == ".json":
            return path.parent, path.stem
        return path / (self.general_config_tracker.model_name_sanitized or ""), "results"


def _task_hash(records: list[dict[str, Any]]) -> str:
    return hash_string("".join(r["doc_hash"] + r["prompt_hash"] + r["target_hash"] for r in records))


def _stamp() -> str:
    return datetime.datetime.now().isoformat().replace(":", "-")


def _make_writable(record: dict[str, Any]) -> None:
    """Name the arguments of a sample, and convert its answers and its target to strings."""
    if not isinstance(record["arguments"], dict):
        record["arguments"] = {
            f"gen_args_{request}": {f"arg_{index}": argument for index, argument in enumerate(arguments)}
            for request, arguments in enumerate(record["arguments"])
        }
    for name in ("resps", "filtered_resps"):
        record[name] = sanitize_list(record[name])
    record["target"] = str(record["target"])


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
