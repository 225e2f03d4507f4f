"""Renders templates with Jinja2 for the differential test of `lmeval-template`.

The first line of standard input is {"doc": ..., "chat": ...}: the variables of prompt and of chat templates. Each
further line is {"template": ..., "chat": bool}, with "doc" where the variables differ. Each answer is one line:
{"out": string} or {"error": kind, "text": message}, where kind is "syntax", "undefined", "other", or "skipped" if it
cannot be compared.
"""

import json
import pathlib
import signal
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "record"))

from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError
from jinja_lines import chat_environment, prompt_environment

# Python warns about some source that Jinja2 generates.
warnings.simplefilter("ignore")


def give_up(signum, frame):
    raise TimeoutError("the template takes too long")


def answer(environment, source, document, chat):
    try:
        template = environment.from_string(source)
    except (TemplateSyntaxError, SyntaxError) as error:
        return failure("syntax", error)
    except Exception as error:
        # Constants are folded early, even in unreachable code.
        return failure("skipped", error)
    try:
        return {"out": template.render(**document) if chat else template.render(document)}
    except (UndefinedError, SecurityError) as error:
        return failure("undefined", error)
    except (RecursionError, MemoryError, TimeoutError) as error:
        return failure("skipped", error)
    except Exception as error:
        return failure("other", error)


def failure(kind, error):
    return {"error": kind, "text": f"{type(error).__name__}: {error}"}


def main():
    environments = {False: prompt_environment(), True: chat_environment()}
    # A fake clock: both sides print the format.
    environments[True].globals["strftime_now"] = lambda form: form
    # Disable the cache of compiled templates: every source occurs once.
    for environment in environments.values():
        environment.cache = None
    first = json.loads(sys.stdin.readline())
    shared = {False: json.dumps(first["doc"]), True: json.dumps(first["chat"])}
    signal.signal(signal.SIGALRM, give_up)
    for line in sys.stdin:
        request = json.loads(line)
        chat = request["chat"]
        # A template can change its document.
        document = request["doc"] if "doc" in request else json.loads(shared[chat])
        signal.setitimer(signal.ITIMER_REAL, 2)
        result = answer(environments[chat], request["template"], document, chat)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
