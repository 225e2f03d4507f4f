"""`python -m lm_eval.ray`: the same as `lm-eval ray`, with this interpreter."""

from __future__ import annotations

import os
import sys

from lm_eval._engine import find_binary


def main() -> None:
    """Replace this process with the `lm-eval` binary, which starts the driver in this interpreter."""
    program = find_binary()
    words = sys.argv[1:]
    if words[:1] == ["run"] and not any(word.split("=")[0] == "--python" for word in words):
        words = ["run", f"--python={sys.executable}", *words[1:]]
    os.execv(program, [program, "ray", *words])


if __name__ == "__main__":
    main()
