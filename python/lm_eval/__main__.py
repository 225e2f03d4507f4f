"""`python -m lm_eval`: runs the `lm-eval` binary, or the command line of a script that registers its own classes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

__all__ = ["cli_evaluate", "main", "parse_eval_args", "setup_parser"]


def main() -> NoReturn:
    """Replace this process with the `lm-eval` binary, passing its arguments on."""
    from lm_eval._engine import find_binary

    if os.environ.get("WORLD_SIZE", "1") != "1":
        from lm_eval import _command, _distributed

        if _distributed.is_shared(_command.model_of(sys.argv[1:])):
            # Each process makes the model; the first one evaluates, and all answer.
            sys.exit(_command.run(sys.argv[1:]))
    program = find_binary()
    os.execv(program, [program, *sys.argv[1:]])


def cli_evaluate(args: argparse.Namespace | None = None) -> None:
    """Run the command line of this process, with the models, metrics, filters and scorers it registered.

    `args` is a namespace as returned by a parser of `setup_parser`; by default the arguments of the script are used.
    A failed run exits the process with its exit status.
    """
    from lm_eval import _command, _patches

    if args is None and (harness := _patches.changed_class("_cli.harness", "HarnessCLI")):
        # Reference: this class parses and runs every command line.
        made = harness()
        made.execute(made.parse_args())
        return
    status = _command.run(sys.argv[1:] if args is None else _command.words_of(args))
    if status:
        sys.exit(status)


def setup_parser() -> argparse.ArgumentParser:
    """Return a parser with the options of `lm-eval run`, to which a script can add its own."""
    from lm_eval import _command

    return _command.parser()


def parse_eval_args(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line of this process; without arguments, print help and exit."""
    if len(sys.argv) == 1:
        parser.print_help()
        sys.exit(1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
