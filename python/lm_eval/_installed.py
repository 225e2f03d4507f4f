"""Notices that this package was installed over the Python harness, which has the same import name."""

from __future__ import annotations

import os

_OURS = "lm_eval_rs"


def refuse_mixture(folder: str | None = None) -> None:
    """Raise `ImportError` if the folder of the package also has the files of the Python harness.

    pip knows packages by their distribution, `lm-eval-rs` and `lm_eval`, and not by what is imported: it installs one over the other, and
    modules of both would run together. The metadata with which `lm-eval-rs` answers for `lm_eval` is recognised by its installer.
    """
    folder = folder or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.isdir(folder):
        return  # The package is inside the binary.
    names = [name for name in os.listdir(folder) if name.startswith("lm_eval") and name.endswith(".dist-info")]
    if not any(name.startswith(f"{_OURS}-") for name in names):
        return
    for name in names:
        if name.startswith("lm_eval-") and not _is_ours(os.path.join(folder, name)):
            version = name.removeprefix("lm_eval-").removesuffix(".dist-info")
            raise ImportError(
                f"`lm-eval-rs` was installed over the Python package `lm_eval` {version} in `{folder}`, so modules of both are mixed; "
                "run `python -m pip uninstall -y lm_eval lm-eval-rs`, then install one of them"
            )


def _is_ours(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "INSTALLER"), encoding="utf-8") as file:
            return file.read().strip() == "lm-eval-rs"
    except OSError:
        return False
