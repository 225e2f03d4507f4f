"""`python -m lm_eval`: the program `lm-eval`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Become the program, with the arguments of this process."""
    from lm_eval._engine import find_program

    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
