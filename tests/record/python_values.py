"""Records how CPython handles literals, JSON documents, numbers, strings and random seeds.

    python3 tests/record/python_values.py

writes tests/vectors/python_*.json. Run it with the Python version to reproduce.
"""

import ast
import json
import math
import pathlib
import random
import struct
import sys
import warnings

warnings.simplefilter("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
R = random.Random(20)

ALPHABET = list("abXY01 _-+.e'\"\\\n\r\t,:()[]{}#") + [
    "é", "ß", "Σ", "ς", "İ", "ǆ", "ǅ", "ﬁ", "１", "१", "²", "½", "\u00a0", "\u2028", "\x1c", "\x85", "\u3000",
    "\ufeff", "\U0001f600", "\u0300", "ŉ", "\x00", "\x7f", "\ue000", "\U000e0001", "\u0378", "ა", "ᾳ", "ɤ",
    "\u02b0", "ª", "\x0b", "\x0c", "\u1c89",
]  # fmt: skip

# Strings for literal_eval beyond the random ones: every rule once, and every way to break it.
LITERALS = [
    "\ufeff1", "\n 1", "\n1", "\\\n 1", "\n \x0c1", "1\\", "1\\\n", "(set)()", "set ( )", "set(\n)", "1\x00",
    "\x0c1", "- 1", "-(1)", "-\n1", "(-\n1)", "u'a' 'b'", "b'a' 'b'", "'\\400'", "b'\\400'", "1,", "1,2", "()",
    "(,)", "[,]", "{,}", "'a\\\nb'", "'a\r\nb'", "'''a\r\nb\rc'''", "0_1.5", "01.5", "0777", "0_0", "00", "0x",
    "1.e1", "'\\x4'", "b'\\x4'", "'\\q'", "br'\\q'", "{**{}}", "{[]:1}", "{(1,[2])}", "{1:2,}", "{1,}", "1;",
    "1 \n\n # c\n  ", "# c\n1", "#c\n#d\n 1", "1 if 1 else 2", "set(())", "set(),", "-True", "'\\8'",
    "'a' # x\n 'b'", "('a' # x\n 'b')", "\t 1", "1\n\t", "1\n\n2", "'\x0c'", "'\r'", "1\r", "\r1",
    "\\\n\\\n1", "\\ \n1", "1\n\\\n", "1\n\\", "(1\\\n)", "1 \\\n\n", "\\\n", "1\x0c\n", "1#", "", "()()",
    "set()()", "1\n\\\n ", "1\n\\\n#c", "(1\n\\\n)", "b'é'", "b'\\é'", "1or 2", "0_", "0b12", "0o8", "1e",
    "1e+", "1.__class__", "{}", "{1:2, 3}", "{1, 2:3}", "[*[1]]", "1-2", "- -1", "+(-1)", "+1", "~1", "not 1",
    "'a''b'\"c\"", "rb'a' Rb'b'", "ur'a'", "f'a'", "'\\u12'", "'\\U00110000'", "'\\x80'", "'\\u00e9\\U0001F600'",
    "b'\\x80\\u1234\\N{x}'", "('''a\n''')", '"""a""b"""', '""""a"""', '"""a""""', "set(1)", "{set()}", "{()}",
    "{():1}", "{1:'a',True:'b',1.0:'c'}", "None", "Nonex", "True,False", "print('x')", "_", "é", "(1)(2)",
    "[1][0]", "'a'.b", "1\n\n\n\n   \n#", "  ", "#", "1e999", "-1e999", "1_0.0_1e1_0", "0xF_f", "0x__f", "0b_1",
    "0B1", "0O7", "09.5", "09e1", "09", "0_9", "000_0", "0__0", "9_9_", "1_", "0x1.5", "1.5.5", "1..", "..5",
    "9" * 30, "-9223372036854775808", "9223372036854775808", "9" * 4301, "0x" + "f" * 40, "-0", "-0.0", "r'\\''",
    "r'\\'", "'\\'", "'a", "'''a'", "[" * 200 + "]" * 200, "[" * 201 + "]" * 201, "(" * 200 + "1" + ")" * 200,
    "[1 2]", "[1,,2]", "{1:}", "{:1}", "(1", "1)", "[1)", "None None", "'a' 1", "b'' b'\\0\\11'", "'\\1234'",
]  # fmt: skip

# Strings for json.loads: every message once.
TEXTS = [
    '{"a":1,}', "[1,]", '{"a"}', '{"a":}', "{a}", '"abc', '"a\nb"', '"\\q"', '"\\u12"', '"\\u12zz"', '"\\', "1 2",
    "", "  ", "tru", "-", "-I", "nan", "01", "1.", "1e", ".5", "\ufeff1", '{"a":1 "b"', "[1 2", "[", "{",
    '{"a":1', '{"a":1,', "[1,", '"\\ud800\\u12"', '"\\ud800\\q"', '"\\ud83d\\ude00"', 'é "', "\n\n  x",
    '"é\nb', '"\\u00e', '"\\u00e9', '"\\u+123"', '"\\ud83d"', '"\\ud83d\\u0041"', "[1,\n  ]", '{"a" 1}', "{1:2}",
    '"\x7f"', '"\\/\\b\\f\\n\\r\\t"', "[1}", "-0", "-0.0", "1E5", "1e+5", "12345678901234567890",
    "-9223372036854775808", "-9223372036854775809", "1e400", "-1e400", "1e-400", "\x0c1", "\u00a01", "nullx",
    "[] ]", '{"a":1, "b": 2, "a":3}', "[NaN, Infinity, -Infinity]", '"\\ud83d\\ud83d\\ude00"', " [ ] ", " { } ",
    "0.1e1", "123.456e-7", '{"\\u0061": 1, "a": 2}', "'a'", "[1]x", "True", "-a", "--1", "+1", "1_0", '"\x00"',
]  # fmt: skip

NUMBERS = [
    "\x1c1", "1\x1f", "\x851", "\xa01\u2003", "１２", "1_0", "1__0", "_1", "1_", "1e5_0", "1_e5", "1._5", ".5",
    "5.", ".", " +1", "+ 1", "infinity", "INF", "-nan", "0x1p3", "1e400", "1\x00", "१.५", "²", "1\x7f", "", " ",
    "+", "--1", "+-1", "0x_1", "0x", "0b1", "0o17", "017", "00", "0_0", "0_1", "z", "0X1f", "-0x1", "1" * 4300,
    "1" * 4301, "f" * 4301, "0b", "0_b1", "1e5", "e5", "1e", "1e+", "in", "infinit", "nan1", "-0", "-0.0",
    "2.2250738585072011e-308", "9007199254740993", "1e23", "8.98846567431158e307", "4.9e-324", "2.4e-324",
    "179769313486231580793e289", "0." + "0" * 330 + "1", "1" + "0" * 400, "1" * 800 + "e-790",
]  # fmt: skip


def attempt(function, *arguments, **options):
    """Return the result, or None for an error."""
    try:
        return function(*arguments, **options)
    except (ValueError, TypeError, SyntaxError, OverflowError, MemoryError, RecursionError):
        return None


def text(longest=12):
    return "".join(R.choice(ALPHABET) for _ in range(R.randrange(longest)))


def number():
    kind = R.randrange(5)
    if kind == 0:
        return struct.unpack("<d", struct.pack("<Q", R.getrandbits(64)))[0]
    if kind == 1:
        return round(R.uniform(-100, 100), R.randrange(6))
    if kind == 2:
        return R.random() * 10.0 ** R.randrange(-20, 25)
    if kind == 3:
        return float(R.randrange(-(10**17), 10**17))
    return 10.0 ** R.randrange(-320, 309)


def tie():
    """Return a float whose two shortest forms may be equally close to it."""
    return R.randrange(1, 2**12) * 2.0 ** -R.randrange(10, 40) + 2.0 ** -R.randrange(10, 40)


def finite():
    while not math.isfinite(drawn := number()):
        pass
    return drawn


def value(depth=0):
    kind = R.randrange(11 if depth < 3 else 7)
    if kind < 7:
        return [None, True, R.randrange(-1000, 1000), R.randrange(-(2**90), 2**90), finite(), text(), text(5).encode()][kind]
    if kind == 7:
        return [value(depth + 1) for _ in range(R.randrange(4))]
    if kind == 8:
        return tuple(value(depth + 1) for _ in range(R.randrange(4)))
    if kind == 9:
        return {text(4): value(depth + 1) for _ in range(R.randrange(4))}
    keys = [R.randrange(-5, 5), finite(), None, False, text(3), (1, "a"), 2**70]
    return {R.choice(keys): value(depth + 1) for _ in range(R.randrange(4))}


def mutated(source):
    characters = list(source)
    for _ in range(R.randrange(1, 3)):
        if characters:
            index = R.randrange(len(characters))
            characters[index : index + R.randrange(2)] = R.choice(["", R.choice(ALPHABET)])
    return "".join(characters)


def literal_cases():
    sources = list(LITERALS)
    for _ in range(150):
        source = repr(value())
        sources += [source, mutated(source)]
    cases = []
    for source in sources:
        result = attempt(ast.literal_eval, source)
        if result is not Ellipsis and not isinstance(result, complex) and "\\N{" not in source and len(source) < 4400:
            failed = result is None and source.strip() != "None"
            cases.append([source, None if failed else repr(result)])
    return cases


def loads_case(source):
    try:
        return [source, repr(json.loads(source)).replace("\\ud83d", "\ufffd"), None]
    except json.JSONDecodeError as error:
        return [source, None, str(error)]


def loads_cases():
    sources = list(TEXTS)
    for _ in range(120):
        source = json.dumps(value(), default=repr, skipkeys=True, ensure_ascii=R.random() < 0.5)
        sources += [source, mutated(source)]
    return [loads_case(source) for source in sources]


OPTIONS = [
    {}, {"ensure_ascii": False}, {"indent": 2}, {"indent": 0, "sort_keys": True}, {"sort_keys": True},
    {"allow_nan": False}, {"separators": [",", ":"], "skipkeys": True}, {"indent": 4, "skipkeys": True},
]  # fmt: skip


def dumps_cases():
    values = [value() for _ in range(120)] + [
        [1e400, -1e400], {2: 1, 1.5: 2, False: 3, 2**70: 4, -(2**70): 5, 1e300: 6}, {"b": 1, "a": 2, "é": 3, "\U0001f600": 4, "\uffee": 5},
        {None: 1}, {"a": 1, 2: 3}, {(1, 2): 3}, {1e16: 1, 1e400: 2}, [], {}, [[], {}, ()], b"x", {1}, "\x00\x1f\x7f\x80\u2028/",
    ]  # fmt: skip
    return [
        [repr(v).replace("inf", "1e999"), [attempt(json.dumps, v, **options) for options in OPTIONS]] for v in values
    ]


def string_case(source, other, limit, width):
    s, o = source, other
    return {
        "text": s, "other": o, "limit": limit, "width": width,
        "strip": [s.strip(), s.lstrip(), s.rstrip(), s.strip(o), s.lstrip(o), s.rstrip(o)],
        "split": [s.split(None, limit), s.rsplit(None, limit), s.split(o, limit), s.rsplit(o, limit), s.splitlines(),
                  s.splitlines(True), s.partition(o), s.rpartition(o)],
        "find": [s.find(o), s.rfind(o), s.count(o)],
        "layout": [s.center(width, "*"), s.ljust(width, "*"), s.rjust(width, "*"), s.zfill(width), s.expandtabs(width)],
        "case": [s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), s.casefold()],
        "is": [s.isupper(), s.islower(), s.istitle(), s.isidentifier()],
        "repr": [repr(s), repr(s.encode())],
    }  # fmt: skip


def string_cases():
    sources = [text(14) for _ in range(100)] + ["ΑΣ", "ΑΣ.", "ΑΣΑ", "Σ", "a Σ", "ǆabc ǆ", "ŉx", "it's \"it\"", "-5", "+é", "a\tb\n\tc\t"]
    cases = []
    for source in sources:
        other = R.choice([text(3), source[1:2], source[1:3]]) or "a"
        cases.append(string_case(source, other, R.choice([-1, 0, 1, 2]), R.randrange(20)))
    return cases


def sum_case(numbers):
    try:
        exact = repr(math.fsum(numbers))
    except (OverflowError, ValueError) as error:
        exact = type(error).__name__
    return [[repr(n) for n in numbers], repr(float(sum(numbers))), exact]


def sum_cases():
    pools = [[0.1], [1e308, -1e308, 1.0], [math.inf, 1.0], [math.inf, -math.inf], [1e16, 1.0, -1e16, 1e-16], [math.nan, 1.0],
             [2.0**e * s for e in range(-60, 60) for s in (1, -1)], [finite() for _ in range(50)]]  # fmt: skip
    return [sum_case([R.choice(pool) for _ in range(R.randrange(9))]) for pool in pools for _ in range(12)]


def random_case(seed):
    r = random.Random(seed)
    length = R.choice([R.randrange(1, 30), R.randrange(1, 90), R.randrange(1, 3000)])
    count = R.randrange(min(length, 20) + 1)
    weights = [R.choice([R.random(), 1.0, 0.5, 0.0]) for _ in range(R.randrange(1, 9))] + [1.0]
    shuffled = list(range(min(length, 30)))
    r.shuffle(shuffled)
    return {
        "seed": seed, "length": length, "count": count, "weights": weights, "shuffle": shuffled,
        "sample": r.sample(range(length), count), "choices": r.choices(range(length), k=count),
        "weighted": r.choices(range(len(weights)), weights=weights, k=count), "choice": r.choice(range(length)),
        "random": r.random(), "uniform": r.uniform(-1.5, 7.25), "bits": [[k, r.getrandbits(k)] for k in (0, 1, 31, 32, 33, 64, 100)],
        "randrange": [[a, r.randrange(*a)] for a in ([0, 10, 1], [10, 0, -3], [-5, 50, 7], [-(2**63), 2**63 - 1, 1])],
        "randint": [[a, r.randint(*a)] for a in ([0, 2**32], [-3, 3], [-(2**63), 2**63 - 1])],
    }  # fmt: skip


def main():
    seeds = [0, 1, -1, 42, 2**31, 2**32, 2**63, -(2**63), 2**64 - 1, 2**100, "", "a", "seed é", "1234", True] + [R.getrandbits(200)]
    numbers = NUMBERS + [repr(number()) for _ in range(60)]
    vectors = {
        "source": f"CPython {sys.version.split()[0]}",
        "floats": [[struct.pack(">d", n).hex(), repr(n)] for n in [number() for _ in range(300)] + [tie() for _ in range(900)] + [65 * 2.0**-22, 0.0, -0.0, 1e16, 1e-4, 1e-5, 123456789012345680.0]],
        "float": [[n, attempt(lambda: struct.pack(">d", abs(float(n)) if "nan" in n else float(n)).hex())] for n in numbers],
        "int": [[n, base, attempt(lambda: format(int(n, base), "x"))] for n in numbers for base in (0, 10, 16, 7) if len(n) < 20 or base != 7],
        "literals": literal_cases(),
        "loads": loads_cases(),
        "options": OPTIONS,
        "dumps": dumps_cases(),
        "strings": string_cases(),
        "sums": sum_cases(),
        "random": [random_case(seed) for seed in seeds],
    }  # fmt: skip
    for name, content in vectors.items():
        if name not in ("source", "options"):
            out = {"source": vectors["source"], name: content}
            if name == "dumps":
                out["options"] = OPTIONS
            path = ROOT / f"tests/vectors/python_{name}.json"
            path.write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")
            print(path.name, path.stat().st_size)


main()
