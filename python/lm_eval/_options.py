"""The options of `lm-eval run`.

Generated from `crates/lmeval-cli/src/settings/options.rs`: `cargo test -p lmeval-cli python_package` writes this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option: its name, its short form or "", and its kind.

    A "value" is a string and a "number" is read as one; "values" are one or more words, a "repeated" option takes one value
    each time, the value of an "optional" one may be omitted, and a "flag" has none.
    """

    name: str
    short: str
    kind: str


OPTIONS = (
    Option("config", "-C", "value"),
    Option("recipe", "-R", "value"),
    Option("locked", "", "value"),
    Option("tasks", "-t", "values"),
    Option("model", "-M", "value"),
    Option("model_args", "-a", "values"),
    Option("gen_kwargs", "", "values"),
    Option("workers", "", "values"),
    Option("metadata", "", "values"),
    Option("hf_hub_log_args", "", "values"),
    Option("wandb_args", "", "values"),
    Option("wandb_config_args", "", "values"),
    Option("trackio_args", "", "values"),
    Option("limit", "-L", "number"),
    Option("samples", "-E", "value"),
    Option("shard", "", "value"),
    Option("num_fewshot", "-f", "number"),
    Option("repeats", "-r", "number"),
    Option("batch_size", "-b", "value"),
    Option("max_batch_size", "", "number"),
    Option("device", "", "value"),
    Option("choices", "", "value"),
    Option("apply_chat_template", "", "optional"),
    Option("fewshot_as_multiturn", "", "optional"),
    Option("system_instruction", "", "value"),
    Option("seed", "", "value"),
    Option("compat", "", "value"),
    Option("reductions", "", "values"),
    Option("budgets", "", "values"),
    Option("bootstrap_iters", "", "number"),
    Option("trust_remote_code", "", "flag"),
    Option("confirm_run_unsafe_code", "", "flag"),
    Option("predict_only", "-x", "flag"),
    Option("check_integrity", "", "flag"),
    Option("fail_under", "", "repeated"),
    Option("expect", "", "value"),
    Option("judge", "", "repeated"),
    Option("baseline", "", "value"),
    Option("prices", "", "value"),
    Option("output_path", "-o", "value"),
    Option("log_samples", "-s", "flag"),
    Option("write_out", "-w", "flag"),
    Option("show_config", "", "flag"),
    Option("format", "", "value"),
    Option("progress", "", "value"),
    Option("quiet", "-q", "flag"),
    Option("view", "", "flag"),
    Option("use_cache", "-c", "value"),
    Option("fresh", "", "flag"),
    Option("max_failures", "", "number"),
    Option("cache_requests", "", "optional"),
    Option("verbosity", "-v", "value"),
    Option("include_path", "", "value"),
    Option("library", "", "value"),
    Option("python", "", "value"),
    Option("plugins", "", "value"),
    Option("color", "", "value"),
)


@dataclass
class OwnSettings:
    """Settings that other harnesses do not have; they are not recorded."""

    recipe: str | None = field(default=None, repr=False)
    locked: str | None = field(default=None, repr=False)
    workers: Any = field(default=None, repr=False)
    trackio_args: Any = field(default=None, repr=False)
    shard: str | None = field(default=None, repr=False)
    choices: str | None = field(default=None, repr=False)
    compat: str | None = field(default=None, repr=False)
    reductions: Any = field(default=None, repr=False)
    budgets: Any = field(default=None, repr=False)
    bootstrap_iters: int | None = field(default=None, repr=False)
    fail_under: Any = field(default=None, repr=False)
    expect: str | None = field(default=None, repr=False)
    judge: Any = field(default=None, repr=False)
    baseline: str | None = field(default=None, repr=False)
    prices: str | None = field(default=None, repr=False)
    format: str | None = field(default=None, repr=False)
    progress: str | None = field(default=None, repr=False)
    quiet: bool = field(default=False, repr=False)
    view: bool = field(default=False, repr=False)
    fresh: bool = field(default=False, repr=False)
    max_failures: int | None = field(default=None, repr=False)
    library: str | None = field(default=None, repr=False)
    python: str | None = field(default=None, repr=False)
    plugins: Any = field(default=None, repr=False)
