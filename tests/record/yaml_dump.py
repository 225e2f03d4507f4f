"""Prints each YAML file, as loaded by PyYAML, as one line of JSON.

Reads paths from standard input, one per line. A line is {"path":"...","value":<typed form>}, or
{"path":"...","error":true} if the file does not load. The test of the task library in lmeval-pycompat prints the same
lines. The typed form is defined in yaml_typed.py.
"""

import json
import sys

from yaml_typed import load_typed


def main():
    for line in sys.stdin:
        path = line.rstrip("\n")
        if not path:
            continue
        with open(path, "rb") as file:
            form = load_typed(file.read())
        result = '"error":true' if form is None else f'"value":{form}'
        print(f'{{"path":{json.dumps(path)},{result}}}')


if __name__ == "__main__":
    main()
