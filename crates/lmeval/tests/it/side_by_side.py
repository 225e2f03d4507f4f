"""Runs the reference's command line: one list of arguments a line on standard input, its output to the file named first.

The index of the reference's own tasks is left out: it takes longer than all runs together and the runs need none of them.
"""

import contextlib
import json
import logging
import sys

from lm_eval.tasks import TaskManager

whole = TaskManager.__init__


def without_defaults(self, *args, **kwargs):
    kwargs["include_defaults"] = False
    whole(self, *args, **kwargs)


TaskManager.__init__ = without_defaults

from lm_eval.__main__ import cli_evaluate  # noqa: E402

for line in sys.stdin:
    output, *arguments = json.loads(line)
    sys.argv = ["lm_eval", *arguments]
    logging.disable(logging.CRITICAL)
    with open(output, "w") as file, contextlib.redirect_stdout(file):
        cli_evaluate()
