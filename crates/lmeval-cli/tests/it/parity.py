"""Run the reference's command line for each list of arguments on standard input, writing output to the first item.

The reference's own tasks are not indexed: that takes longer than all runs together, and no run needs them.
"""

import contextlib
import json
import logging
import sys

from lm_eval.tasks import TaskManager

original = TaskManager.__init__


def without_defaults(self, *args, **kwargs):
    kwargs["include_defaults"] = False
    original(self, *args, **kwargs)


TaskManager.__init__ = without_defaults

from lm_eval.__main__ import cli_evaluate  # noqa: E402

for line in sys.stdin:
    output, *arguments = json.loads(line)
    sys.argv = ["lm_eval", *arguments]
    logging.disable(logging.CRITICAL)
    with open(output, "w") as file, contextlib.redirect_stdout(file):
        cli_evaluate()
