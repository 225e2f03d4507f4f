//! The options of `run` as the Python package repeats them, in `python/lm_eval/_options.py`.

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::kinds::{Count, Iterations, Number};
use super::record::RECORDED;
use crate::cli::Cli;

/// Options of which a script reads one string, as in the reference, although they can be repeated.
const ONE_STRING: [&str; 2] = ["include_path", "plugins"];

/// Options of the command itself, which do not change a run.
const OF_COMMAND: [&str; 1] = ["color"];

/// The command `run` with its options.
pub(super) fn run_command() -> Command {
    let mut command = Cli::command();
    command.build();
    command.find_subcommand("run").unwrap().clone()
}

/// The kind of an option, as `_options.py` defines them.
pub(super) fn kind(option: &Arg) -> &'static str {
    let parsed = option.get_value_parser().type_id();
    let is_number =
        [TypeId::of::<Count>(), TypeId::of::<Iterations>(), TypeId::of::<Number>(), TypeId::of::<i64>()]
            .iter()
            .any(|number| parsed == *number);
    let values = option.get_num_args().unwrap_or_default();
    match (values.min_values(), values.max_values()) {
        (0, 0) => "flag",
        (0, _) => "optional",
        (_, 2..) => "values",
        _ if matches!(option.get_action(), ArgAction::Append)
            && !ONE_STRING.contains(&option.get_id().as_str()) =>
        {
            "repeated"
        }
        _ if is_number => "number",
        _ => "value",
    }
}

/// The module: a table of all options, and a class with those that the reference does not have.
fn module() -> String {
    let run = run_command();
    let mut table = String::new();
    let mut own = String::new();
    for option in run.get_arguments().filter(|option| option.get_id() != "help") {
        let (name, kind) = (option.get_long().unwrap(), kind(option));
        let short = option.get_short().map(|short| format!("-{short}")).unwrap_or_default();
        let _ = writeln!(table, "    Option(\"{name}\", \"{short}\", \"{kind}\"),");
        if RECORDED.contains(&name) || OF_COMMAND.contains(&name) {
            continue;
        }
        let (of_type, default) = match kind {
            "flag" => ("bool", "False"),
            "number" => ("int | None", "None"),
            "value" if !ONE_STRING.contains(&name) => ("str | None", "None"),
            _ => ("Any", "None"),
        };
        let _ = writeln!(own, "    {name}: {of_type} = field(default={default}, repr=False)");
    }
    format!(
        r#""""The options of `lm-eval run`.

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
{table})


@dataclass
class OwnSettings:
    """Settings that other harnesses do not have; they are not recorded."""

{own}"#
    )
}

#[test]
fn python_package_has_every_option() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/lm_eval");
    let path = package.join("_options.py");
    let expected = module();
    if fs_err::read_to_string(&path).unwrap_or_default() != expected {
        fs_err::write(&path, expected).unwrap();
        panic!("The options of `run` have changed: python/lm_eval/_options.py is written again; commit it");
    }
    let record = fs_err::read_to_string(package.join("config/evaluate_config.py")).unwrap();
    for name in RECORDED {
        assert!(record.contains(&format!("\n    {name}: ")), "`EvaluatorConfig` lacks `{name}`");
    }
}
