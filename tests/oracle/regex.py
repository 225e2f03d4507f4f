"""Runs `re` on patterns, for the differential test of `lmeval_pycompat::re`.

Reads one JSON array per line from standard input: pattern, flags, strings, template, count. Writes one line for each:
null if it takes too long, {"error": …} if the pattern does not compile, otherwise {"answer": …, "template": …}. The
first line is the version of Python. Positions in strings are UTF-8 byte offsets; positions in errors are character
offsets.
"""

import json
import re
import signal
import sys
import warnings

warnings.simplefilter("ignore")

LIMIT = 0.3
FLAGS = [re.I, re.M, re.S, re.X, re.A]


class TooSlow(Exception):
    pass


def stop(_signal, _frame):
    raise TooSlow


def failure(error):
    if isinstance(error, re.error):
        return ["error", error.msg, error.pos]
    return [type(error).__name__, str(error), None]


def spans(match, places):
    if match is None:
        return None
    found = []
    for start, end in match.regs:
        found += (-1, -1) if start < 0 else (places[start], places[end])
    return found


def answer_for(regex, text, template, count):
    places = range(len(text) + 1)
    if not text.isascii():
        places = [0]
        for character in text:
            places.append(places[-1] + len(character.encode()))
    return [
        spans(regex.search(text), places),
        spans(regex.match(text), places),
        spans(regex.fullmatch(text), places),
        [spans(match, places) for match in regex.finditer(text)],
        regex.findall(text),
        regex.split(text, count),
        None if template is None else regex.sub(template, text, count),
    ]


def answer(pattern, bits, texts, template, count):
    flags = 0
    for index, flag in enumerate(FLAGS):
        if bits >> index & 1:
            flags |= flag
    try:
        regex = re.compile(pattern, flags)
    except (re.error, OverflowError, ValueError) as error:
        return {"error": failure(error)}
    problem = None
    try:
        regex.sub(template, "")
    except (re.error, IndexError) as error:
        problem = failure(error)
        template = None
    answers = [answer_for(regex, text, template, count) for text in texts]
    return {"answer": [regex.groups, list(regex.groupindex.items()), answers], "template": problem}


def main():
    sys.stdin.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8")
    signal.signal(signal.SIGALRM, stop)
    print(json.dumps("%d.%d" % sys.version_info[:2]), flush=True)
    dumps = json.JSONEncoder(separators=(",", ":")).encode
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        try:
            # CPython raises SystemError when it loses track of the groups of a possessive repeat.
            found = answer(*question)
        except (TooSlow, SystemError):
            found = None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        print(dumps(found), flush=True)


if __name__ == "__main__":
    main()
