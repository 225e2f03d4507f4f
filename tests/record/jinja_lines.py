"""Renders templates line by line with Jinja2: the counterpart of the example `render_lines`.

Each line of standard input is {"template": ..., "doc": ...}; each line of standard output is {"out": ...} or
{"error": ...}. With "chat": true the template is a chat template.
"""

import json
import re
import string
import sys
from datetime import datetime

import jinja2
from jinja2 import BaseLoader, Environment, StrictUndefined
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def regex_replace(text, pattern, repl, count=0):
    return re.sub(pattern, repl, text, count=count)


def letter_choices(choices, sep="\n", style=". "):
    return sep.join(f"{string.ascii_uppercase[i]}{style}{choice}" for i, choice in enumerate(choices))


def answer_key_to_index(key, labels=None):
    key = str(key).strip()
    if labels is not None:
        return list(labels).index(key)
    if len(key) == 1 and key.isalpha():
        return ord(key.upper()) - ord("A")
    return int(key) - 1


def prompt_environment():
    environment = Environment(loader=BaseLoader, undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = regex_replace
    environment.filters["letter_choices"] = letter_choices
    environment.filters["answer_key_to_index"] = answer_key_to_index
    return environment


class Generation(Extension):
    """`{% generation %}` blocks, which only mark the assistant's turns."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def chat_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda text: datetime(2026, 1, 2, 3, 4, 5).strftime(text)
    return environment


def render(environments, request):
    environment = environments[bool(request.get("chat"))]
    template = environment.from_string(request["template"])
    if request.get("chat"):
        return template.render(**request["doc"])
    # A document may have keys that cannot be passed as arguments, such as `self`.
    return template.render(request["doc"])


def main():
    environments = {False: prompt_environment(), True: chat_environment()}
    for line in sys.stdin:
        try:
            answer = {"out": render(environments, json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=False)


if __name__ == "__main__":
    main()
