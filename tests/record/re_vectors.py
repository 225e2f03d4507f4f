"""Records what Python's `re` does, for the tests of `lmeval_pycompat::re`.

    python3.11 tests/record/re_vectors.py > tests/vectors/re.json
    python3.11 tests/record/re_vectors.py --seed 7 --patterns 20000 > other.json
    python3.11 tests/record/re_vectors.py --library TASKS_DIRECTORY > library.json
    python3.11 tests/record/re_vectors.py --tables > crates/lmeval-pycompat/src/re/tables.rs

Positions are in bytes of UTF-8, as Rust counts them; a group without part in the match is -1, -1.
"""

import _sre
import argparse
import json
import random
import re
import signal
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

FLAGS = [(re.I, 1), (re.M, 2), (re.S, 4), (re.X, 8), (re.A, 16)]

TASK_PATTERNS = [
    r"#### (\-?[0-9\.\,]+)", r"(-?[$0-9.,]{2,})|(-?[0-9]+)", r"(\([A-Z]\))", r"\['(.*?)'\]",
    r"\b(PER|LOC|ORG|DATE):\s*([^$]+)", r"((?<=The answer is )(.*)(?=.)|(?<=answer: )(.*)(?=.))",
    r"(?s).*#### ", r"\.$", r"\s+$", r"^\s+", r",", r"\$", r":[\s]*(A|B|C|D)", r"\b(yes|no|maybe)\b",
    r"(?i)\b(true|false)\b", r"[Aa]nswer\s*[:=]?\s*\(?([A-D])\)?", r"答案[是为：:]\s*([A-D])", r"\\boxed\{([^{}]*)\}",
    r"(\d+)(?:st|nd|rd|th)?", r"\('([^']*)', '([^']*)'\)", r"(?=(female|woman|man|male))", r"\b(a|an|the)\b",
    r"[^\w\s]", r"\w+|[^\w\s]", r"(?m)^(\w+)\s*=\s*(.+)$", r"<(\w+)>.*?</\1>", r"(?P<q>['\"]).*?(?P=q)",
    r"\{ans_regex\}", r"{ans}", r"(?<![\d.])\d+(?![\d.])", r"\s+", r"\W+", r"(?:\A|\n)Q: (.*?)(?:\Z|\n)", r"([.,!?])",
    r"(?i)ſtraße|K", r"(\d+)\.(\d+)|(\.\d+)", r"(.)\1+", r"(?x) ( [0-9]+ ) # number\n \s* %",
]
WORDS = [
    "The answer is 42.", "#### 1,234.5\n", "(A) yes", "no.", "\n", "a\nb\n", " \t", "é", "e\u0301", "ß", "ſ", "K", "İ", "ı", "i", "K",
    "s", "S", "²", "½", "٣", "字", "答案是 B", "\u00a0", "\u2028", "\x1c", "\x85", "_", "-", "$1,200", "\\boxed{7}", "$", "'x'", "true", "FALSE",
    "aa", "ab", "ba", "abab", "AB", "12", "1st", "x = 3", "<b>bold</b>", "\U00010400", "\U00010428", "😀", "Σσς", "µμ", ".", "answer: B) no",
    "woman", "{ans}", "ǅǆ", "Ω", "Ω", "‿", "क\u093e",
]
ATOMS = ["a", "b", "c", "A", "B", "é", "É", "s", "k", "ſ", "i", "İ", "1", "\\.", "\\$", ",", " ", "\\n", ".", "\\d", "\\w", "\\s", "\\W", "\\S", "\\D",
         "[ab]", "[^a]", "[a-c]", "[^\\s]", "[\\w.]", "[]a]", "[^]a]", "[[a]", "[a&&b]", "[a-]", "[\\d-x]", "字", "\\x41", "\\u00e9", "\\101",
         "[\\W_]", "[^\\W\\d]", "[A-Z]", "[é-ſ]", "\\U00010400", "[\U00010400x]", "[\U00010400-\U00010410]", "σ", "µ", "\\-", "{", "}", "]", "\\0"]
ANCHORS = ["^", "$", "\\b", "\\B", "\\A", "\\Z"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "{0}", "*?", "+?", "??", "{1,2}?", "*+", "++", "?+", "{1,2}+", "{,1}", "{2,3}"]
JUNK = list("ab1(){}[]|*+?.^$\\,:<>=!#-&~PigxsmauLt ") + ["(?", "(?P<", "(?P=", "(?:", "(?<=", "(?!", "(?(1)", "\\g", "\\1", "\\x4", "\\N{", "(?i)",
                                                         "(?-i:", "(?P<n>", "(?a)", "{2,1}", "\\8", "\\400", "[b-a]", "[\\d-z]", "é", "\\é", "\n", "(?#"]
TEMPLATES = ["", "x", "<\\g<0>>", "[\\1]", "\\g<1>-\\2", "\\n\\t\\\\", "\\.", "\\0", "\\012", "\\q", "\\g<n>", "\\g<", "\\g<>", "\\g<1a>", "\\g< 1 >",
             "\\101", "\\9", "\\477", "\\18", "\\é", "a\\", "\\g", "\\g<99999999999>", "&$0${1}", "\\g<é>", "\\x41", "\\07", "\\g<01>"]


class TooSlow(Exception):
    pass


def on_alarm(_signal, _frame):
    raise TooSlow


class Generator:
    """Random patterns and strings."""

    def __init__(self, rng, patterns):
        self.rng = rng
        self.patterns = patterns

    def pattern(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.2:
            return rng.choice(self.patterns)
        if kind < 0.32:
            return self.mutated(rng.choice(self.patterns))
        if kind < 0.42:
            return "".join(rng.choice(JUNK) for _ in range(rng.randint(1, 7)))
        self.groups = 0
        self.closed = []
        text = self.alternatives(rng.randint(1, 3))
        if rng.random() < 0.15:
            text = rng.choice(["(?i)", "(?s)", "(?m)", "(?a)", "(?ia)", "(?x)", "(?im)"]) + text
        return text

    def mutated(self, pattern):
        characters = list(pattern)
        for _ in range(self.rng.randint(1, 2)):
            at = self.rng.randrange(len(characters) + 1)
            if self.rng.random() < 0.4 and characters:
                del characters[min(at, len(characters) - 1)]
            else:
                characters.insert(at, self.rng.choice(JUNK + QUANTIFIERS))
        return "".join(characters)

    def alternatives(self, depth):
        count = self.rng.choice([1, 1, 1, 2, 2, 3])
        return "|".join(self.sequence(depth) for _ in range(count))

    def sequence(self, depth):
        return "".join(self.item(depth) for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3])))

    def item(self, depth):
        rng = self.rng
        kind = rng.random()
        if depth > 0 and kind < 0.35:
            text = self.group(depth - 1)
        elif kind < 0.45:
            return rng.choice(ANCHORS)
        elif kind < 0.53 and self.groups:
            group = rng.choice(self.closed) if self.closed and rng.random() < 0.95 else rng.randint(1, self.groups)
            text = rng.choice([f"\\{group}", f"(?({group})a|b)", f"(?({group})b)"] if group in self.closed else [f"\\{group}"])
        else:
            text = rng.choice(ATOMS[:10] if rng.random() < 0.5 else ATOMS)
        if rng.random() < 0.45:
            text += rng.choice(QUANTIFIERS)
        return text

    def group(self, depth):
        rng = self.rng
        kind = rng.random()
        if kind < 0.5:
            self.groups += 1
            group = self.groups
            opening = f"(?P<g{group}>" if rng.random() < 0.2 else "("
            text = opening + self.alternatives(depth) + ")"
            self.closed.append(group)
            return text
        opening = rng.choice(["(?:", "(?:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:", "(?a:", "(?s:", "(?m:"])
        if opening.startswith("(?<"):
            body = "".join(rng.choice(ATOMS[:20] + ANCHORS) for _ in range(rng.randint(0, 2)))
            return opening + (body if rng.random() < 0.8 else self.alternatives(depth)) + ")"
        return opening + self.alternatives(depth) + ")"

    def text(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.05:
            return ""
        if kind < 0.5:
            return "".join(rng.choice("aabbcAB1 .,\n") for _ in range(rng.randint(1, 10)))
        joint = rng.choice(["", " ", "\n"])
        return joint.join(rng.choice(WORDS) for _ in range(rng.randint(1, 5))) + rng.choice(["", "", "\n", ".", "\n\n"])

    def flags(self):
        return [(flag, bit) for flag, bit in FLAGS if self.rng.random() < 0.08]


def failure(error):
    return {"e": [str(error.msg), error.pos] if isinstance(error, re.error) else [str(error), None]}


def spans(match, text):
    if match is None:
        return None
    out = []
    for index in range(match.re.groups + 1):
        start, end = match.span(index)
        out += [start, end] if start < 0 else [len(text[:start].encode()), len(text[:end].encode())]
    return out


def record_text(regex, text, rng):
    entry = {"t": text, "i": [spans(match, text) for match in regex.finditer(text)]}
    entry["a"] = [list(found) if isinstance(found, tuple) else found for found in regex.findall(text)]
    entry["m"] = spans(regex.match(text), text)
    entry["f"] = spans(regex.fullmatch(text), text)
    template, count = rng.choice(TEMPLATES), rng.choice([0, 0, 0, 1, 2])
    try:
        replaced = regex.sub(template, text, count)
    except (re.error, IndexError) as error:
        replaced = failure(error)
    entry["s"] = [template, count, replaced]
    limit = rng.choice([0, 0, 1, 2])
    entry["p"] = [limit, regex.split(text, limit)]
    return entry


def record(pattern, flags, texts, rng):
    case = {"p": pattern, "f": sum(bit for _, bit in flags)}
    value = 0
    for flag, _ in flags:
        value |= flag
    try:
        regex = re.compile(pattern, value)
    except (re.error, OverflowError, ValueError) as error:
        return case | failure(error)
    case["g"] = regex.groups
    case["n"] = list(regex.groupindex.items())
    case["x"] = [record_text(regex, text, rng) for text in texts]
    return case


def library_patterns(directory):
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    found = {}

    def walk(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key in ("regex_pattern", "regexes_to_ignore", "regex_replace"):
                    for pattern in item if isinstance(item, list) else [item]:
                        if isinstance(pattern, str):
                            found[pattern] = None
                elif key == "regex_pattern_to_value" and isinstance(item, dict):
                    for pattern in item:
                        if isinstance(pattern, str):
                            found[pattern] = None
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    for path in sorted(Path(directory).rglob("*")):
        if path.suffix not in (".yaml", ".yml") and not path.name.endswith("_yaml"):
            continue
        try:
            walk(yaml.load(path.read_text(encoding="utf-8"), Loader=Loader))
        except (yaml.YAMLError, UnicodeDecodeError):
            continue
    return list(found)


def vectors(arguments):
    rng = random.Random(arguments.seed)
    patterns = list(TASK_PATTERNS)
    signal.signal(signal.SIGALRM, on_alarm)
    jobs = []
    if arguments.library:
        patterns = library_patterns(arguments.library)
        generator = Generator(rng, patterns)
        pieces = [piece for pattern in patterns for piece in re.findall(r"[\w ]{2,}", pattern)]
        for pattern in patterns:
            texts = WORDS + [generator.text() for _ in range(40)]
            texts += [" ".join(rng.choice(pieces + WORDS) for _ in range(rng.randint(1, 8))) for _ in range(60)]
            texts += [piece + rng.choice([" 5", " (B)", " 1,234.50\n", " yes.", "字", "\n"]) for piece in pieces]
            jobs.append((pattern, [], texts))
    else:
        generator = Generator(rng, patterns)
        for _ in range(arguments.patterns):
            jobs.append((generator.pattern(), generator.flags(), [generator.text() for _ in range(arguments.texts)]))
    print("[")
    separator = ""
    for pattern, flags, texts in jobs:
        signal.setitimer(signal.ITIMER_REAL, 2)
        try:
            case = record(pattern, flags, texts, rng)
        except (TooSlow, SystemError):
            # CPython 3.11 loses track of groups in some possessive repeats and raises SystemError.
            continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(separator + json.dumps(case, ensure_ascii=False, separators=(",", ":")))
        separator = ",\n"
    print("\n]")


CODE_POINTS = 0x110000


def ranges(predicate):
    out, start = [], None
    for code in range(CODE_POINTS + 1):
        inside = code < CODE_POINTS and predicate(chr(code))
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            out.append((start, code - 1))
            start = None
    return out


def lower_runs():
    pairs = [(c, _sre.unicode_tolower(c)) for c in range(CODE_POINTS) if _sre.unicode_tolower(c) != c]
    out = []
    for code, lower in pairs:
        delta = lower - code
        if out:
            first, last, step, known = out[-1]
            gap = code - last
            if known == delta and (gap == step or (first == last and gap in (1, 2))):
                out[-1] = (first, code, gap, known)
                continue
        out.append((code, code, 1, delta))
    return out


def alike():
    """Return the lower-case characters that match other lower-case ones when case is ignored, found by trial."""
    groups = {}
    for code in range(CODE_POINTS):
        if _sre.unicode_tolower(code) == code:
            for key in {chr(code).upper(), chr(code).casefold(), chr(code).upper().casefold()}:
                groups.setdefault(key, set()).add(code)
    found = {}
    for codes in groups.values():
        for code in codes:
            for other in codes - {code}:
                if re.fullmatch(re.escape(chr(code)), chr(other), re.IGNORECASE):
                    found.setdefault(code, set()).add(other)
    return {code: sorted(found[code]) for code in sorted(found)}


def wrap(items):
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > 108:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    lines.append(line)
    return "\n".join(lines)


def table(name, doc, pairs):
    body = wrap(f"({a:#x}, {b:#x})" for a, b in pairs)
    return f"/// {doc}\n#[rustfmt::skip]\npub(super) const {name}: &[(u32, u32)] = &[\n{body}\n];\n"


def tables():
    print("//! Character tables of CPython 3.11 (Unicode 14.0), written by `tests/record/re_vectors.py --tables`.\n")
    print(table("WORD", "Code points of `\\w`: `str.isalnum()` or an underscore.",
                ranges(lambda c: c.isalnum() or c == "_")))
    print(table("DIGIT", "Code points of `\\d`, general category Nd; every range starts at a zero.",
                ranges(str.isdecimal)))
    print(table("SPACE", "Code points of `\\s`: `str.isspace()`.", ranges(str.isspace)))
    print(table("NAME_START", "Code points that may start an identifier.", ranges(str.isidentifier)))
    print(table("NAME_CONTINUE", "Code points that may follow in an identifier.",
                ranges(lambda c: ("a" + c).isidentifier())))
    body = wrap(f"({a:#x}, {b:#x}, {s}, {d})" for a, b, s, d in lower_runs())
    print("/// Simple lower-case mapping as runs: first, last, step and the difference to the lower-case form.")
    print(f"#[rustfmt::skip]\npub(super) const LOWER: &[(u32, u32, u32, i32)] = &[\n{body}\n];\n")
    body = wrap(f"({k:#x}, &[{', '.join(hex(v) for v in vs)}])" for k, vs in alike().items())
    print("/// Lower-case code points that also match others when case is ignored.")
    print(f"#[rustfmt::skip]\npub(super) const ALIKE: &[(u32, &[u32])] = &[\n{body}\n];")

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--patterns", type=int, default=1100)
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--library")
    parser.add_argument("--tables", action="store_true")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    if arguments.tables:
        tables()
    else:
        vectors(arguments)


if __name__ == "__main__":
    main()
