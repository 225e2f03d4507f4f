"""Objects by name in files of a folder.

The engine does not use it: building requests is faster than reading them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from pathlib import Path
from typing import Any

__all__ = ["PATH", "delete_cache", "load_from_cache", "save_to_cache"]

eval_logger = logging.getLogger(__name__)

OVERRIDE_PATH = os.environ.get("LM_HARNESS_CACHE_PATH")
"""The folder named by the environment."""

PATH = OVERRIDE_PATH or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lm-eval", "objects"
)
"""The folder of the files."""

FILE_SUFFIX = ".lm-eval.pickle"
"""The suffix of file names."""

_LONGEST = 200


def _file(name: str) -> Path:
    safe = "".join(character if character.isalnum() or character in "-_.=" else "_" for character in name)
    digest = hashlib.sha256(name.encode("utf-8")).hexdigest()[:16]
    return Path(PATH, f"{safe[:_LONGEST]}-{digest}{FILE_SUFFIX}")


def load_from_cache(file_name: str, cache: bool = False) -> Any:
    """Return a cached object; `None` unless `cache` is set and the object exists."""
    if not cache:
        return None
    try:
        with open(_file(file_name), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return None


def save_to_cache(file_name: str, obj: Any) -> None:
    """Store an object under a name."""
    path = _file(file_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    with open(part, "wb") as file:
        pickle.dump(obj, file)
    os.replace(part, path)


def delete_cache(key: str = "") -> None:
    """Delete the objects whose names start with `key`."""
    start = _file(key).name.removesuffix(FILE_SUFFIX).rpartition("-")[0]
    for path in Path(PATH).glob(f"*{FILE_SUFFIX}"):
        if path.name.startswith(start):
            path.unlink(missing_ok=True)
