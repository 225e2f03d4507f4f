"""Pushes results and samples to dataset repositories of the hub, with the user's package `huggingface_hub`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval._lazy import require

DETAILS_REPO = "lm-eval-results"
"""The repository used if none is named."""

_MARK = "<!-- written by lm-eval -->"
"""Marks a card that may be replaced; others belong to their authors."""


class HubLog:
    """The repositories of a run, named by the arguments of `--hf_hub_log_args`.

    Creating it checks the token, so that a wrong one is noticed before a run and not after it.
    """

    def __init__(
        self,
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
        output_path: str | None = None,
    ) -> None:
        hub = self._hub = require("huggingface_hub", "Pushing to the hub")
        self.push_results, self.push_samples = bool(push_results_to_hub), bool(push_samples_to_hub)
        self.is_public, self.is_gated = bool(public_repo), bool(gated)
        self.leaderboard_url, self.point_of_contact = leaderboard_url, point_of_contact
        # `HF_TOKEN` wins over the argument; a login of the user is the last resort.
        found = os.environ.get("HF_TOKEN") or token or hub.get_token()
        if not found:
            raise ValueError(
                "Pushing to the hub needs a token; set `HF_TOKEN`, or log in with `hf auth login`"
            )
        self._api = hub.HfApi(token=found)
        owner = hub_results_org or str(self._api.whoami()["name"])
        details = hub_repo_name or details_repo_name or DETAILS_REPO
        results = hub_repo_name or results_repo_name or details
        suffix = "" if self.is_public else "-private"
        self.details_repo, self.results_repo = (f"{owner}/{name}{suffix}" for name in (details, results))

    def push(self, model: str, results: Path | None, samples: Sequence[Path]) -> list[str]:
        """Push the files that the settings select, in one commit per repository; return what was done, in words."""
        wanted: dict[str, list[Path]] = {}
        if self.push_results and results is not None:
            wanted.setdefault(self.results_repo, []).append(results)
        if self.push_samples and samples:
            wanted.setdefault(self.details_repo, []).extend(samples)
        return [self._commit(repository, model, files) for repository, files in wanted.items()]

    def refresh_card(self, repository: str) -> None:
        """Write the repository's card again, unless it was written by someone else."""
        card = self._card(repository, self._api.list_repo_files(repository, repo_type="dataset"))
        if card is not None:
            self._create_commit(repository, [card], "Update the card")

    def _commit(self, repository: str, model: str, files: list[Path]) -> str:
        self._api.create_repo(repository, repo_type="dataset", private=not self.is_public, exist_ok=True)
        if self.is_gated and repository == self.details_repo:
            self._api.update_repo_settings(repository, repo_type="dataset", gated="auto")
        added = [
            self._hub.CommitOperationAdd(path_in_repo=f"{model}/{path.name}", path_or_fileobj=str(path))
            for path in files
        ]
        listed = self._api.list_repo_files(repository, repo_type="dataset")
        card = self._card(repository, [*listed, *(operation.path_in_repo for operation in added)])
        if card is not None:
            added.append(card)
        self._create_commit(repository, added, f"Add results of {model}")
        count = f"{len(files)} file{'s' if len(files) > 1 else ''}"
        return f"Pushed {count} to {self._api.endpoint}/datasets/{repository}"

    def _create_commit(self, repository: str, operations: list[Any], message: str) -> None:
        self._api.create_commit(repository, operations, commit_message=message, repo_type="dataset")

    def _card(self, repository: str, files: Sequence[str]) -> Any:
        """Return the operation that writes the card; `None` if its author is someone else."""
        if "README.md" in files:
            path = self._api.hf_hub_download(
                repository, "README.md", repo_type="dataset", force_download=True
            )
            if _MARK not in Path(path).read_text(encoding="utf-8"):
                return None
        text = _card_text(repository, files, self.leaderboard_url, self.point_of_contact)
        return self._hub.CommitOperationAdd(path_in_repo="README.md", path_or_fileobj=text.encode())


def _card_text(repository: str, files: Sequence[str], leaderboard_url: str, point_of_contact: str) -> str:
    """Return a card with one configuration per model and task, so that the hub can show and load the samples."""
    configurations: dict[str, tuple[str, str]] = {}
    for path in sorted(set(files)):
        model, _, name = path.rpartition("/")
        if model and name.startswith("samples_") and name.endswith(".jsonl"):
            front = name.removesuffix(".jsonl").rpartition("_")[0]
            task = front.removeprefix("samples_")
            configurations[f"{model}__{task}".replace("/", "__")] = (model, f"{front}_*.jsonl")
    lines = ["---"]
    if configurations:
        lines.append("configs:")
    for name, (model, pattern) in configurations.items():
        # JSON strings are YAML strings.
        lines += [f"- config_name: {_quoted(name)}", f"  data_files: {_quoted(f'{model}/{pattern}')}"]
    lines += ["---", "", _MARK, "", f"# {repository.rpartition('/')[2]}", ""]
    lines.append("Results and samples of lm-eval: one folder per model, one samples file per task and run.")
    if leaderboard_url:
        lines += ["", f"Leaderboard: {leaderboard_url}"]
    if point_of_contact:
        lines += ["", f"Contact: {point_of_contact}"]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)
