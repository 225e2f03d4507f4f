"""The names of result files: `results_DATE.json` and `samples_TASK_DATE.jsonl`."""

from __future__ import annotations

import os
import re

__all__ = [
    "get_file_datetime",
    "get_file_task_name",
    "get_latest_filename",
    "get_results_filenames",
    "get_sample_results_filenames",
]


def get_file_task_name(filename: str) -> str:
    """Return the task of a samples file: the part between the first and the last underscore."""
    return filename[filename.find("_") + 1 : filename.rfind("_")]


def get_file_datetime(filename: str) -> str:
    """Return the date of a file: the part after the last underscore, without `.jsonl`."""
    return filename[filename.rfind("_") + 1 :].replace(".jsonl", "")


def get_latest_filename(filenames: list[str]) -> str:
    """Return the file with the latest date."""
    return max(filenames, key=_moment)


def _moment(filename: str) -> tuple[str, ...]:
    # Dates sort as strings once every run of digits is a separate part.
    return tuple(re.split(r"\D+", get_file_datetime(os.path.basename(filename))))


def get_results_filenames(filenames: list[str]) -> list[str]:
    """Return the paths of results files."""
    return [name for name in filenames if "/results_" in name and name.endswith(".json")]


def get_sample_results_filenames(filenames: list[str]) -> list[str]:
    """Return the paths of samples files."""
    return [name for name in filenames if "/samples_" in name and name.endswith(".jsonl")]
