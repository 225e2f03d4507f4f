"""Records how PyYAML loads a few thousand random documents: tests/vectors/yaml.json.

Usage: python yaml_vectors.py > ../vectors/yaml.json, with PyYAML 6 built against libyaml 0.2.5.

The output is a list of [document, form]: form is the typed form of yaml_typed.py as a string, or null if the document
does not load. The generator is seeded, so runs are reproducible.
"""

import json
import random
import sys

from yaml_typed import load_typed

SCALAR_PARTS = """0 1 7 8 9 12 60 59 _ . - + : e E x 0x 0b 0o b a f F inf Inf nan .inf .nan .NaN yes No true null ~
2001-01-02 2020-02-30 -1-1 T t Z 12:30:45 .123456789 +05:30 -3 = << y on Off 00 10 é ١""".split() + [" ", "\t"]
SCALAR_PLACES = ["", "a: ", "- ", "[", "! |\n ", "!!int ", "!!float ", "!!timestamp ", "!!binary ", "!!bool ", '! "']
FRAGMENTS = """a b key - ? : , [ ] { } " ' \\ \\n \\x41 \\u00e9 \\U0001F600 \\q | > |- |+ >- >2 *a *b ! !foo !!str, << =
--- ... % @ ` é 1 0x1 1.5 yes null ~ 2001-01-01 {a:b} {a,b} aGk= #c""".split() + [
    "\n", "\n", "\n", "\n  ", "\n ", "\n    ", " ", "  ", "\t", "# c\n", "\\\n", "|\n", ">\n", "|1\n", "&a ", "&b ",
    "!!str ", "!!int ", "!!float ", "!!set ", "!!omap ", "!!binary ", "!!pairs ", "!!map ", "!!seq ", "!!null ",
    "!!bool ", "!!timestamp ", "!function ", "!<tag:yaml.org,2002:str> ", "!e!str ", "- ", "? ", ": ", ", ", "<<: ",
    "<<: *a", "= : ", "--- ", "---\n", "...\n", "%YAML 1.1\n", "%TAG !e! tag:yaml.org,2002:\n", "\u2028", "\x85",
    "\u2029", "\ufeff", "😀", "\r\n", "\r", "a: b\n", "- a\n", "- b: c\n", "  - d\n", "? x\n", "{a: b}", "[a, b]",
    "\x7f", "text here",
]
LEAVES = ["plain text", "x: y", "a#b", "a #b", "http://x", "'q''q'", '"d\\"q"', "*a", "&a v", "&b v", "!!str 12",
          "!function utils.f", "", "<<", "="]
KEYS = ["a", "b", "c", '"q"', "1", "yes", "1.0", "<<", "<<", "=", "? x\n{pad}"]
TAGS = ["", "", "", "", "", "&a ", "&b ", "!!map ", "!!set ", "!!omap ", "!!pairs ", "!!seq ", "*a", "*b"]


class Generator:
    """Random documents, from noise to well-formed ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def join(self, parts, most):
        return "".join(self.random.choice(parts) for _ in range(self.random.randint(1, most)))

    def scalar(self):
        return self.random.choice(SCALAR_PLACES) + self.join(SCALAR_PARTS, 6)

    def noise(self):
        return self.join(FRAGMENTS, 12)

    def block(self, indent=0, depth=0):
        pick, pad = self.random, " " * indent
        kind = pick.random()
        if depth > 3 or kind < 0.2:
            return pick.choice([*LEAVES, f"multi\n{pad} line", f'"a\n{pad}  b"']) + "\n"
        if kind < 0.3:
            return self.join(SCALAR_PARTS, 5) + "\n"
        if kind < 0.4:
            header = pick.choice(["|", ">", "|-", ">-", "|+", ">+", "|2", ">1-"])
            lines = (
                pad + pick.choice(["  ", "   ", "    ", "  \t", ""]) + pick.choice(["line", "- x", "", "  ", "# no"])
                for _ in range(pick.randint(0, 4))
            )
            return header + "\n" + "\n".join(lines) + pick.choice(["", "\n", "\n\n"])
        if kind < 0.6:
            count = pick.randint(1, 3)
            return "\n" + "".join(pad + "- " + self.block(indent + 2, depth + 1).lstrip(" ") for _ in range(count))
        if kind < 0.85:
            entries = (
                pad + pick.choice(KEYS).format(pad=pad) + ": " + pick.choice(TAGS) + self.block(indent + 2, depth + 1)
                for _ in range(pick.randint(1, 4))
            )
            return "\n" + "".join(entries)
        return pick.choice(TAGS) + self.flow(0, pad) + "\n"

    def flow(self, depth, pad):
        pick = self.random
        kind = pick.random()
        if depth > 2 or kind < 0.4:
            return pick.choice([*LEAVES, "a b", "1:2", "a?", "~", "yes"])
        if kind < 0.7:
            comma = pick.choice([", ", ",", " , ", f",\n{pad} "])
            items = comma.join(self.flow(depth + 1, pad) for _ in range(pick.randint(0, 3)))
            return "[" + items + pick.choice(["", ",", " "]) + "]"
        keys = ["a", "b", "? c", '"d"', "<<", "1", "true", "*a ", "="]
        colons = [": ", ":", " : ", ""]
        entries = ", ".join(
            pick.choice(keys) + pick.choice(colons) + self.flow(depth + 1, pad) for _ in range(pick.randint(0, 3))
        )
        return "{" + entries + pick.choice(["", ","]) + "}"

    def anchored(self):
        """Two anchored mappings and a continuation, so that merges and aliases have targets."""
        return "x: &a {a: 1, c: [2]}\ny: &b {b: 3, a: 4, =: 5}\nz: " + self.block(2, 1)


def main():
    generator = Generator(20240613)
    kinds = [(generator.scalar, 1400), (generator.noise, 700), (generator.block, 900), (generator.anchored, 500)]
    cases = {make() for make, count in kinds for _ in range(count)}
    rows = [json.dumps([text, load_typed(text.encode())], separators=(",", ":")) for text in sorted(cases)]
    sys.stdout.write("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
