"""Records CPython's properties of every code point.

    python3 tests/record/unicode_tables.py

writes the vectors (tests/vectors/unicode.json) and the tables of the library
(crates/lmeval-pycompat/src/strings/tables.rs). Run it with the Python version to reproduce.
"""

import json
import pathlib
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHARACTERS = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]


def is_final_sigma(text):
    return text.lower().endswith("ς")


def is_ignorable(c):
    """Case_Ignorable, which Python exposes only through the final sigma rule."""
    return is_final_sigma("a" + c + "Σ") and not is_final_sigma(c + "Σ")


def is_cased(c):
    return (c + "a").title().endswith("a")


PROPERTIES = {
    "space": str.isspace,
    "printable": str.isprintable,
    "alpha": str.isalpha,
    "decimal": str.isdecimal,
    "digit": str.isdigit,
    "numeric": str.isnumeric,
    "alnum": str.isalnum,
    "upper": str.isupper,
    "lower": str.islower,
    "title": str.istitle,
    "cased": is_cased,
    "ignorable": is_ignorable,
    "identifier_start": str.isidentifier,
    "identifier_continue": lambda c: ("a" + c).isidentifier(),
    "punctuation": lambda c: unicodedata.category(c).startswith("P"),
    "unassigned": lambda c: unicodedata.category(c) == "Cn",
}
MAPPINGS = {
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "casefold": str.casefold,
    "swapcase": str.swapcase,
}


def boundaries(holds):
    """Return the code points at which membership flips; surrogates continue the preceding state."""
    flips, inside = [], False
    for c in CHARACTERS:
        if holds(chr(c)) != inside:
            inside = not inside
            flips.append(c)
    return flips


def fnv(data, state=0xCBF29CE484222325):
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return state


def mapping_hashes(mapping):
    """Return one hash for every block of 4096 code points in which a character maps to something else."""
    hashes = {}
    for start in range(0, sys.maxunicode + 1, 4096):
        block = [chr(c) for c in range(start, start + 4096) if not 0xD800 <= c <= 0xDFFF]
        changed = [c + mapping(c) for c in block if mapping(c) != c]
        if changed:
            hashes[str(start)] = str(fnv("".join(changed).encode()))
    return hashes


def deltas(numbers):
    return [b - a for a, b in zip([0] + numbers, numbers)]


def rust_numbers(name, doc, numbers):
    out = [f"/// {doc}", "#[rustfmt::skip]", f"pub(super) static {name}: [u32; {len(numbers)}] = ["]
    line = "   "
    for number in numbers:
        item = f" 0x{number:04X},"
        if len(line) + len(item) > 110:
            out.append(line)
            line = "   "
        line += item
    return out + [line, "];", ""]


def rust_pairs(name, doc, pairs):
    kind = "u8" if isinstance(pairs[0][1], int) else "&str"
    out = [f"/// {doc}", "#[rustfmt::skip]", f"pub(super) static {name}: [(char, {kind}); {len(pairs)}] = ["]
    line = "   "
    for c, value in pairs:
        literal = value if kind == "u8" else '"%s"' % "".join("\\u{%X}" % ord(t) for t in value)
        item = " ('\\u{%X}', %s)," % (ord(c), literal)
        if len(line) + len(item) > 110:
            out.append(line)
            line = "   "
        line += item
    return out + [line, "];", ""]


def main():
    version = f"CPython {sys.version.split()[0]}, Unicode {unicodedata.unidata_version}"
    sets = {name: boundaries(holds) for name, holds in PROPERTIES.items()}
    vectors = {
        "source": version,
        "flips": {name: deltas(flips) for name, flips in sets.items()},
        "mappings": {name: mapping_hashes(mapping) for name, mapping in MAPPINGS.items()},
        # The value of a decimal digit is its distance from the preceding zero; only the others are listed.
        "digits": {str(c): unicodedata.digit(chr(c)) for c in CHARACTERS
                   if unicodedata.digit(chr(c), None) is not None and unicodedata.decimal(chr(c), None) is None},
        "zeros": [c for c in CHARACTERS if unicodedata.decimal(chr(c), None) == 0],
    }
    out = ROOT / "tests/vectors/unicode.json"
    out.write_text(json.dumps(vectors, separators=(",", ":")) + "\n")

    characters = [chr(c) for c in CHARACTERS]
    title = [(c, c.title()) for c in characters if c.title() != c.upper()]
    fold = [(c, c.casefold()) for c in characters if c.casefold() != c.lower()]
    continues = boundaries(lambda c: ("a" + c).isidentifier() and not c.isalnum())
    starts = boundaries(lambda c: c.isidentifier() != c.isalpha())
    joins = boundaries(lambda c: c.isalnum() and not ("a" + c).isidentifier())
    digits = [(c, unicodedata.digit(c)) for c in characters
              if unicodedata.digit(c, None) is not None and unicodedata.decimal(c, None) is None]
    lines = [f"//! Character tables of {version}; written by `tests/record/unicode_tables.py`.", "//!",
             "//! A set is the sorted list of code points at which membership flips, beginning outside.", ""]
    lines += rust_numbers("PRINTABLE", "`str.isprintable`.", sets["printable"])
    lines += rust_numbers("ALPHA", "`str.isalpha`.", sets["alpha"])
    lines += rust_numbers("NUMERIC", "`str.isnumeric`.", sets["numeric"])
    lines += rust_numbers("PUNCTUATION", "The general categories `P*`.", sets["punctuation"])
    lines += rust_numbers("ZEROS", "The zero of every run of ten decimal digits.", vectors["zeros"])
    lines += rust_pairs("DIGITS", "Characters that are digits but not decimal, with their values.", digits)
    lines += rust_numbers("UNASSIGNED", "Code points without a character.", sets["unassigned"])
    lines += rust_numbers("CASED", "Characters that have a case.", sets["cased"])
    lines += rust_numbers("IGNORABLE", "Characters that the final sigma rule skips.", sets["ignorable"])
    lines += rust_numbers("IDENTIFIER_START", "Code points where `str.isidentifier` and `str.isalpha` differ.", starts)
    lines += rust_numbers("IDENTIFIER_PART", "Code points that continue an identifier but are not `str.isalnum`.", continues)
    lines += rust_numbers("NOT_IDENTIFIER_PART", "Code points that are `str.isalnum` but cannot continue an identifier.", joins)
    lines += rust_pairs("TITLE", "Title case where it is not upper case.", title)
    lines += rust_pairs("FOLD", "Case folding where it is not lower case.", fold)
    (ROOT / "crates/lmeval-pycompat/src/strings/tables.rs").write_text("\n".join(lines).rstrip("\n") + "\n")


main()
