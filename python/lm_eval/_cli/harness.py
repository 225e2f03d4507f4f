"""The command line, as a class."""

from __future__ import annotations

import argparse
import sys

__all__ = ["HarnessCLI"]


class HarnessCLI:
    """Parses and runs the command line of this process, with the classes it registered."""

    def parse_args(self) -> argparse.Namespace:
        """Return the command and its arguments: those of `run` by name, and all of them as `words`."""
        from lm_eval import _command

        words = sys.argv[1:]
        named = words[0] if words and not words[0].startswith("-") else None
        command = "run" if named is None and words else named
        args = argparse.Namespace(command=command, words=words)
        if command == "run":
            args, _ = _command.parser().parse_known_args(words[1:] if named else words, args)
        args._parsed = _options(args)
        return args

    def execute(self, args: argparse.Namespace) -> None:
        """Run a command line; a failure exits the process with its status."""
        from lm_eval import _command

        # Arguments that a script has changed since count; the engine parses all others itself.
        is_as_given = hasattr(args, "words") and getattr(args, "_parsed", None) == _options(args)
        status = _command.run(args.words if is_as_given else _command.words_of(args))
        if status:
            sys.exit(status)


def _options(args: argparse.Namespace) -> dict[str, object]:
    return {name: value for name, value in vars(args).items() if name not in ("words", "_parsed")}
