"""Loads documents with PyYAML, for the differential test of the YAML reader.

Each line of standard input is a JSON list of documents. For each line, standard output gets a JSON list of the same
length: the typed form of each document's value (see tests/record/yaml_typed.py), or null if it does not load. A
document with an alias inside the value that it names is treated as one that does not load, even if the value is
dropped later: the reader rejects it on purpose.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "record"))

import yaml_typed  # noqa: E402


class Loader(yaml_typed.Loader):
    def construct_document(self, node):
        refuse_cycles(node, set())
        return super().construct_document(node)


def refuse_cycles(node, around):
    if node.id == "scalar":
        return
    if id(node) in around:
        raise ValueError("the value contains itself")
    around.add(id(node))
    children = node.value if node.id == "sequence" else [child for entry in node.value for child in entry]
    for child in children:
        refuse_cycles(child, around)
    around.discard(id(node))


def main():
    for line in sys.stdin:
        forms = [yaml_typed.load_typed(text.encode(), Loader) for text in json.loads(line)]
        sys.stdout.write(json.dumps(forms) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
