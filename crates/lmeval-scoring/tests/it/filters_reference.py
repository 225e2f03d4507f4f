"""Random answers through the filters of the reference harness.

Arguments: a seed, a number of cases, and the dialect. One case as JSON per line: steps, documents, answers, and the
result or an error. The reference is release 0.4.13; for dialect 0.5 the places that differ are replaced.
"""

import json
import random
import re
import sys
import unicodedata

from lm_eval.api.registry import get_filter
from lm_eval.filters import extraction, selection, transformation

PIECES = [
    "#### ", "The answer is ", "the answer is ", "Answer: ", "answer:", ":", " ", "  ", "\n", "\t", "(A)", "(B)", "(C)",
    "A", "B", "C", "D", "a", "b", "-7", "1,234.50", "42", "٣", "½", ".", ",", "!", "$", "$$", "…", "—", "'", "\"",
    "Paris", "paris", "PARIS", "New York", "new-york", "Rome", "Guilty", "Guilty of Romance", "x", "xx", "ab", "yes",
    "no", "İ", "ΑΣ", "ß", "ŉ", "e\u0301", "\u00a0", "\u2003", "\u001c", "\u200b", "日本", "[", "]", "{", "}", "\\", "|",
    "person: ", "persons: ", "Location: ", "date", "time:", "org : ", "none", "None", ", ", "people: Ada", "per",
    "[('The', 'DET'), ('cat', 'NOUN')]", "('a', 'B')", "female", "woman", "man", "male", "\\boxed{5}",
]
PATTERNS = [
    r"#### (\-?[0-9\.\,]+)", r"(-?[$0-9.,]{2,})|(-?[0-9]+)", r"(\([A-Z]\))", r"\d+", r"(\w)=?(-?[\d.]*)", r"\b([ABCD])\b",
    r"(?=(female|woman|man|male))", r"(a?)(b?)x", r"(a)?x", r"b*", r"\s*", r"(?i)answer:?\s*(?:is)?\s*(\w)", r"(\s)(x?)",
    r"((?<=The answer is )(.*)(?=.)|(?<=the answer is )(.*)(?=.)|(?<=The answer: )(.*)(?=.))", r"^\s*(.*?)\s*$", r"(?s).*",
    r"(?P<q>['\"])(.*?)(?P=q)", r"\W+", r"\S+\s", r"(.)\1", r"[^\x00-\x7f]+", r"\.$", r"(?m)^(.+)$", r"(x)|(y)|( )", "",
]
IGNORED = [r"\s", r"\.$", ",", r"\$", r"(?s).*#### ", r"\b(a|an|the)\b", "x*", "é"]
CHOICES = ["Paris", "New York", "Rome", "Guilty", "Guilty of Romance", "", " x ", "x", "a.b", "İ", "42", "(A)", "ab", "no!"]


def text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(9)))


def extraction_kwargs(rng):
    kwargs = {}
    if rng.random() < 0.9:
        kwargs["regex_pattern"] = rng.choice(PATTERNS)
    if rng.random() < 0.5:
        kwargs["group_select"] = rng.choice([0, -1, -1, 1, -2, 2, True])
    if rng.random() < 0.3:
        kwargs["fallback"] = rng.choice(["", " none ", "no", 7, None, ["x"]])
    return kwargs


def kwargs_of(rng, name):
    if name == "regex":
        return extraction_kwargs(rng)
    if name == "multi_choice_regex":
        kwargs = extraction_kwargs(rng)
        if rng.random() < 0.5:
            kwargs["ignore_case"] = rng.choice([True, False, 1, None])
        if rng.random() < 0.5:
            kwargs["ignore_punctuation"] = rng.choice([True, False])
        if rng.random() < 0.5:
            kwargs["regexes_to_ignore"] = rng.choice([None, [], rng.sample(IGNORED, rng.randrange(1, 4)), ",."])
        return kwargs
    if name == "regex_pos":
        return {"fallback": rng.choice([None, [], ["none"], "x"])} if rng.random() < 0.4 else {}
    if name == "take_first_k":
        return {"k": rng.choice([0, 1, 2, 3, -1])}
    if name == "map":
        keys = rng.sample(PIECES + ["[invalid]", ""], 20)
        kwargs = {"mapping_dict": {key: rng.choice([0, 1, "x", None, 2.5, True]) for key in keys}}
        if rng.random() < 0.6:
            kwargs["default_value"] = rng.choice([-1, "?", None])
        return kwargs
    return {}


NAMES = [
    "regex", "regex", "regex", "multi_choice_regex", "multi_choice_regex", "multi_choice_regex", "regex_pos", "take_first",
    "take_first_k", "majority_vote", "lowercase", "uppercase", "remove_whitespace", "map", "format_span",
]


def follow_the_newer_line():
    """Replaces what 0.5 does differently."""
    extraction.sorted = lambda items, **_: list(items)
    selection.TakeFirstFilter.apply = lambda self, resps, docs: [[r[0]] for r in resps]
    transformation.SPANFilter.apply = lambda self, resps, docs: [[newer_span(r) for r in rs] for rs in resps]


def newer_span(text):
    """`format_span` as 0.5 documents it."""
    text = text.lower()
    words = "person location organization counties places people persons company country continent time date per loc org"
    labels = "PER LOC ORG LOC LOC PER PER ORG LOC LOC DATE DATE PER LOC ORG"
    for word, label in zip(words.split(), labels.split()):
        text = text.replace(word, label)
    text = text.replace("$$", "$").removesuffix("$$").replace("\n", "$").strip()
    spans = re.findall(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)", text)
    pairs = [(label.lower(), entity.strip()) for label, entities in spans for entity in entities.split(",")]
    return " $ ".join(f"{label}: {entity}" for label, entity in pairs if entity.lower() != "none")


def look_at_punctuation_once():
    """Keeps the reference from going through all of Unicode for every case."""
    punctuation = [code for code in range(sys.maxunicode) if unicodedata.category(chr(code)).startswith("P")]
    extraction.range = lambda _: punctuation


def run(steps, docs, responses):
    for step in steps:
        responses = get_filter(step["function"])(**step["kwargs"]).apply(responses, docs)
        responses = list(responses)
    return responses


def main():
    seed, count, dialect = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if dialect == "0.5":
        follow_the_newer_line()
    look_at_punctuation_once()
    rng = random.Random(seed)
    for _ in range(count):
        names = [rng.choice(NAMES) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        steps = [{"function": name, "kwargs": kwargs_of(rng, name)} for name in names]
        docs = [{"choices": rng.sample(CHOICES, rng.randrange(6))} for _ in range(2)]
        responses = [[text(rng) for _ in range(rng.choice([1, 2, 3, 12]))] for _ in docs]
        if rng.random() < 0.1:
            responses[0][0] = rng.choice([None, 5, 1.5, [["a", "B"]], []])
        case = {"steps": steps, "docs": docs, "responses": responses}
        try:
            case["out"] = run(steps, docs, [list(r) for r in responses])
        except Exception as error:  # noqa: BLE001
            case["error"] = repr(error)
        print(json.dumps(case))


main()
