"""Saves the figures of a benchmark as `bench/results/NAME.json`, from which `scripts/figures` writes the tables of the documentation.

A table is `{"sides": [A, B], "rows": [{"what": …, "unit": "s", "a": 1.5, "b": 0.5}]}` for two programs, where the ratio is computed, or
`{"columns": […], "rows": [[…]]}` for everything else.
"""

import datetime
import json
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def add_argument(parser):
    """Add the flag `--save`."""
    parser.add_argument("--save", action="store_true", help="write the figures to bench/results")


def row(what, unit, a, b):
    """One line of a table of two programs."""
    return {"what": what, "unit": unit, "a": a, "b": b}


def pair(sides, rows):
    """A table of two programs; their ratio follows from it."""
    return {"sides": list(sides), "rows": rows}


def show(table):
    """Print a table of two programs."""
    print(f"{'':32}" + "".join(f"{side:>16}" for side in table["sides"]) + f"{'ratio':>10}")
    for one in table["rows"]:
        cells = "".join(f"{one[side]:>11.4g} {one['unit']:4}" for side in ("a", "b"))
        ratio = one["b"] / one["a"] if one["unit"].startswith("/") else one["a"] / one["b"]
        print(f"{one['what']:32}{cells}{ratio:>9.1f}x")


def commit():
    """The measured commit, marked if files of the product differ from it."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "crates", "python")
    return git("rev-parse", "--short=8", "HEAD") + (" with changes" if changed else "")


def save(name, script, tables, **facts):
    """Write the tables with the date, the commit, and the machine."""
    result = {
        "script": f"bench/{pathlib.Path(script).name}",
        "machine": f"{os.cpu_count()} {platform.machine()} cores",
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "commit": commit(),
        **facts,
        "tables": tables,
    }
    path = ROOT / f"bench/results/{name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"saved to {path.relative_to(ROOT)}; `scripts/figures` writes the pages")
