"""Evaluates tasks of the 0.4 line that use Python functions, on made-up documents.

    function_tasks.py learn LIBRARY CASES [SECONDS PART PARTS [START ...]]

searches by trial for documents on which the tasks of a library can be evaluated: a missing key becomes a column, and
a value that does not fit gets another type. The cases that worked are written to the file CASES, one task per line:
`{"path": YAML file below the library, "splits": {split: [document]}}`.

    function_tasks.py run LIBRARY CASES

evaluates each with the installed reference and prints one line for each: its requests with the answers of a fake
model, its results and its samples, or its error.
"""

import ast
import hashlib
import json
import logging
import os
import random
import re
import signal
import sys
import time

os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", HF_ALLOW_CODE_EVAL="0")
out = os.dup(1)
os.dup2(2, 1)
logging.disable(logging.CRITICAL)

import datasets  # noqa: E402
from lm_eval import evaluator  # noqa: E402
from lm_eval.api import task as task_module  # noqa: E402
from lm_eval.api.model import LM  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

datasets.disable_progress_bars()
task_module.tqdm = lambda iterable, **kwargs: iterable

ANSWERS = [
    "A", "B", "yes", "no", "True", "The answer is (A).", "the answer is 4", "#### 42", "42", "a small cat", "",
    "Answer: C\n\nBecause.", "positive", "0", "[1, 2]", "\\boxed{3}", "entailment", "Paris", "```python\nx = 1\n```",
]  # fmt: skip
WORDS = "river stone Paris cat seven left yes Müller quick 猫 blue 12 walk the house".split()
TYPES = ["text", "letter", "int", "digits", "list", "bool", "float", "ints", "sentence", "dicts", "repr", "lists", "label"]

# Columns that trial would not find: values that functions expect.
MC = {"dict": {"choices": "list", "labels": {"one_of": [[1, 0, 0, 0]]}}}
OPTIONS = {"option1": "text", "option2": "text", "answer": {"one_of": ["1", "2"]}, "sentence": {"one_of": ["The _ ran."]}}
CAUSE = {"premise": "text", "question": {"one_of": ["cause", "effect"]}, "choice1": "text", "choice2": "text", "label": "int"}
ARABIC = {"query": "text", "label": {"one_of": ["0", "1", "2"]}, "sol1": "text", "sol2": "text", "sol3": "text"}
PROBLEMS = repr([{"question": "Who is _ ?", "answer": "B", "options": ["he", "she", "it", "they"]}] * 2)
MMLU_PRO = {"question": "text", "options": "list", "answer": "letter", "answer_index": "int", "cot_content": {"one_of": ["A: Let's think step by step. So (A)."]}}
HINTS = {
    "truthfulqa/": {"mc1_targets": MC, "mc2_targets": MC, "question": "text"},
    "truthfulqa-multi/": {"mc1_targets": MC, "mc2_targets": MC, "question": "text"},
    "winogrande/": OPTIONS,
    "xwinograd/": OPTIONS,
    "icelandic_winogrande/": OPTIONS,
    "xcopa/": CAUSE,
    "copal_id/": CAUSE,
    "super_glue/copa": CAUSE,
    "basque_bench/": CAUSE,
    "wsc273/": {"text": {"one_of": ["The cat sat because it was tired."]}, "pronoun": {"one_of": ["it"]}, "pronoun_loc": {"one_of": [20]}, "options": {"one_of": [["The cat", "The mat"]]}, "label": "int"},
    "race/": {"article": "text", "problems": {"one_of": [PROBLEMS]}},
    "mathqa/": {"Problem": "text", "options": {"one_of": ["a ) 38 , b ) 27.675 , c ) 30 , d ) data , e ) none"]}, "correct": {"one_of": ["a", "c", "e"]}},
    "logiqa/": {"context": "text", "question": "text", "options": "list", "label": {"one_of": ["a", "b", "d"]}},
    "mutual/": {"article": {"one_of": ["m : hi . f : hello , it 's me ."]}, "options": "list", "answers": "letter"},
    "hendrycks_math/": {"problem": "text", "solution": {"one_of": ["So \\\\boxed{3}.", "\\\\boxed{\\\\frac12}"]}, "level": "text", "type": "text"},
    "mmlu_pro/": MMLU_PRO | {"category": {"one_of": ["biology", "math"]}},
    "mmlu-pro-plus/": MMLU_PRO | {"category": {"one_of": ["biology", "math"]}},
    "drop/": {"passage": "text", "question": "text", "query_id": "text", "answer": {"dict": {"number": {"one_of": ["3", ""]}, "date": {"dict": {"day": {"one_of": [""]}, "month": {"one_of": [""]}, "year": {"one_of": ["", "1999"]}}}, "spans": "list", "worker_id": "text", "hit_id": "text"}}, "validated_answers": {"dict": {"number": {"one_of": [["3"]]}, "date": {"one_of": [[{"day": "", "month": "", "year": ""}]]}, "spans": {"one_of": [[["cat"]]]}, "worker_id": {"one_of": [["x"]]}, "hit_id": {"one_of": [["y"]]}}}},
    "arabic_leaderboard_complete/arabic_leaderboard_arabic_mt": ARABIC,
    "arabic_leaderboard_light/arabic_leaderboard_arabic_mt": ARABIC,
    "kobest/kobest_copa": {"premise": "text", "question": {"one_of": ["원인", "결과"]}, "alternative_1": "text", "alternative_2": "text", "label": "int"},
    "kobest/kobest_hellaswag": {"context": "text", "ending_1": "text", "ending_2": "text", "ending_3": "text", "ending_4": "text", "label": {"one_of": [0, 3]}},
    "glianorex/": {"question": "text", "options": {"dict": {"A": "text", "B": "text", "C": "text", "D": "text"}}, "answer_idx": "letter", "language": {"one_of": ["fr", "en"]}},
    "okapi/": {"ctx_a": "text", "ctx_b": "text", "activity_label": "text", "endings": "list", "label": {"one_of": ["0", "2"]}},
    "nerel-bench/": {"instruction": {"one_of": ["Find in {text}"]}, "context": {"one_of": ["{\"text\": \"a cat\"}"]}, "true_answer": "text"},
    "csatqa/": {"question": "text", "context": "text", "option#1": "text", "option#2": "text", "option#3": "text", "option#4": "text", "option#5": "text", "gold": {"one_of": [1, 2, 5]}},
    "super_glue/record": {"passage": {"one_of": ["A cat.\n@highlight\nA dog."]}, "query": {"one_of": ["Where is @placeholder now?"]}, "entities": "list", "answers": "list"},
    "crows_pairs/": {"sent_more": "text", "sent_less": "text", "stereo_antistereo": "int", "bias_type": {"one_of": [3, 6]}},
    "arabicmmlu/": {"Question": "text", "Context": "text", "Option 1": "text", "Option 2": "text", "Option 3": "text", "Option 4": "text", "Option 5": "text", "Answer Key": "letter", "Level": "text", "Country": "text", "Subject": "text"},
    "winogender/": {"gender": {"one_of": ["female", "male", "neutral"]}, "pronoun": {"one_of": ["she"]}, "occupation": "text", "participant": "text", "sentence": "text", "target": "text", "label": "int", "sentid": "text"},
    "med_text_classification/": {"text": "text", "class": {"one_of": ["1", "2"]}},
    "physics_gre/": {"input": "text", "target_scores": {"dict": {"A": "int", "B": "int"}}, "has_image": {"one_of": [False]}},
}  # fmt: skip


KEPT = ("doc_id", "doc", "filter", "target", "filtered_resps", "doc_hash", "prompt_hash", "target_hash")


class StandIn(LM):
    """Returns answers that depend only on the request."""

    def __init__(self):
        super().__init__()
        self.log = []

    def draw(self, *parts):
        return random.Random(int(hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:12], 16))

    def keep(self, request, answer):
        self.log.append([request.request_type, json.dumps(list(request.args)), answer])
        return answer

    def loglikelihood(self, requests, **_):
        def one(request):
            draw = self.draw("ll", request.args)
            return self.keep(request, (-20 * draw.random(), draw.random() < 0.4))

        return [one(request) for request in requests]

    def loglikelihood_rolling(self, requests, **_):
        return [self.keep(request, -200 * self.draw("rolling", request.args).random()) for request in requests]

    def generate_until(self, requests, **_):
        def one(request):
            draw = self.draw("generate", request.args)
            target = re.findall(r"\w+", str(request.args[0]))
            return self.keep(request, draw.choice([*ANSWERS, *target[-3:]]))

        return [one(request) for request in requests]


def evaluate(path, splits, seed=0):
    class GivenTask(task_module.ConfigurableTask):
        def download(self, dataset_kwargs=None, **kwargs):
            self.dataset = datasets.DatasetDict(
                {name: datasets.Dataset.from_list(documents) for name, documents in splits.items()}
            )

    config = load_yaml(path)
    for key in ("tag", "group", "task_list"):
        config.pop(key, None)
    random.seed(seed)
    import numpy

    numpy.random.seed(1234 + seed)
    task = GivenTask(config=config)
    if task.get_config("num_fewshot") is None:
        task.set_config("num_fewshot", 0)
    task.set_fewshot_seed(seed=1234)
    model = StandIn()
    results = evaluator.evaluate(
        model, task_dict={task.config.task: task}, bootstrap_iters=0, log_samples=True, confirm_run_unsafe_code=True
    )
    samples = [
        {key: sample[key] for key in (*KEPT, *sample["metrics"])}
        | {"metrics": sample["metrics"]}
        for sample in results["samples"][task.config.task]
    ]
    return {"requests": model.log, "results": results["results"][task.config.task], "samples": samples}


# Learning.


class Tree(dict):
    """Records how code uses a value: which keys it reads, and what else."""

    def __init__(self):
        super().__init__()
        self.facts = set()

    def at(self, key):
        return self.setdefault(key, Tree())


def scan(source, tree):
    try:
        module = ast.parse(source)
    except SyntaxError:
        return

    def place(node):
        if isinstance(node, ast.Name):
            return tree
        if isinstance(node, ast.Subscript):
            inner = place(node.value)
            if inner is None:
                return None
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return inner.at(node.slice.value)
            inner.facts.add("list")
            return inner.at("#")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            inner = place(node.func.value)
            if inner is not None and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                return inner.at(node.args[0].value)
        return None

    for node in ast.walk(module):
        if isinstance(node, (ast.Subscript, ast.Call)):
            place(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            inner = place(node.args[0]) if isinstance(node.args[0], ast.Subscript) else None
            if inner is not None:
                inner.facts.add({"int": "digits", "float": "digits", "len": "list", "enumerate": "list"}.get(node.func.id, ""))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Subscript):
            inner = place(node.value)
            if inner is not None:
                inner.facts.add("list" if node.attr in ("index", "append") else "text")
        if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, ast.Subscript):
            inner = place(node.iter)
            if inner is not None:
                inner.facts.add("list")


def guess(name, tree, draw):
    """Return a type for a column that code reads."""
    facts = tree.facts if tree is not None else set()
    keys = [key for key in (tree or {}) if key != "#"]
    if keys:
        return {"dict": {key: guess(key, tree[key], draw) for key in keys}}
    if tree is not None and "#" in tree and [key for key in tree["#"] if key != "#"]:
        return {"dicts": {key: guess(key, tree["#"][key], draw) for key in tree["#"] if key != "#"}}
    for fact in ("digits", "text", "list"):
        if fact in facts:
            return fact
    low = name.lower()
    if re.search(r"choices|options|endings|answers|candidates|list|references|aliases", low):
        return "list"
    if re.search(r"answerkey|answer_letter|correct_option|cop$", low):
        return "letter"
    if re.search(r"label|gold|idx|index|id$|num|target|correct", low):
        return "int"
    return "text"


def value(kind, column, number):
    draw = random.Random(f"{column} {number}")
    if isinstance(kind, dict):
        if "one_of" in kind:
            return kind["one_of"][number % len(kind["one_of"])]
        ((shape, inner),) = kind.items()
        if shape == "dict":
            return {key: value(one, f"{column}.{key}", number) for key, one in inner.items()}
        return [
            {key: value(one, f"{column}.{key}.{place}", number) for key, one in inner.items()} for place in range(4)
        ]
    if kind == "text":
        return " ".join(draw.sample(WORDS, 3)) + "."
    if kind == "sentence":
        return f"{draw.choice(WORDS)} is {draw.choice(WORDS)}: ( {number} ) [{draw.choice('ABCD')}] #### {number}, _ and so on.\nEnd"
    if kind == "letter":
        return "ABCD"[draw.randrange(4)]
    if kind == "label":
        return ["yes", "no", "maybe"][draw.randrange(3)]
    if kind == "int":
        return draw.randrange(2)
    if kind == "digits":
        return str(draw.randrange(1, 4))
    if kind == "bool":
        return bool(draw.randrange(2))
    if kind == "float":
        return draw.randrange(100) / 8
    if kind == "ints":
        return [int(place == draw.randrange(4)) for place in range(4)]
    if kind == "repr":
        return repr([draw.choice(WORDS) for _ in range(4)])
    if kind == "dicts":
        return [{"text": draw.choice(WORDS), "label": "ABCD"[place]} for place in range(4)]
    if kind == "lists":
        return [[draw.choice(WORDS), draw.choice(WORDS)] for _ in range(2)]
    return [f"{word} {place}" for place, word in enumerate(draw.sample(WORDS, 4))]


MISSING = re.compile(r"^'([^']+)' is undefined|has no attribute '([^']+)'|Column '?([^' ]+)'? (?:not in|doesn't exist)")


def learn(path, library, seconds):
    config = load_yaml(path)
    if config.get("dataset_path") is None and config.get("custom_dataset") is None:
        return None
    names = {config.get(key) for key in ("test_split", "validation_split", "training_split", "fewshot_split")}
    names |= {(config.get("fewshot_config") or {}).get("split")}
    names = sorted(name for name in names if isinstance(name, str))
    tree = Tree()
    for function in functions(config):
        try:
            with open(sys.modules[function.__module__].__file__) as file:
                scan(file.read(), tree)
        except (KeyError, AttributeError, OSError, TypeError):
            pass
    draw = random.Random(path)
    below = os.path.relpath(path, library)
    hints = next((HINTS[start] for start in HINTS if below.startswith(start)), {})
    columns, tries, end = {"id": "int"} | hints, 0, time.monotonic() + seconds
    while tries < 200 and time.monotonic() < end:
        splits = {
            name: [
                {column: value(kind, column, 10 * place + number) for column, kind in columns.items()}
                for number in range(6)
            ]
            for place, name in enumerate(names)
        }
        try:
            found = evaluate(path, splits)
            scored = [score for key, score in found["results"].items() if "," in key and "stderr" not in key]
            if not found["requests"] or not any(isinstance(score, (int, float)) for score in scored):
                raise ValueError("no scores")
            again = evaluate(path, splits, seed=1)
            return splits if json.dumps(again, default=str) == json.dumps(found, default=str) else None
        except (ModuleNotFoundError, ConnectionError, FileNotFoundError, MemoryError):
            return None
        except Exception as error:  # noqa: BLE001
            tries += 1
            text = str(error)
            keys = [error.args[0]] if isinstance(error, KeyError) and error.args else []
            match = MISSING.search(text)
            if match:
                keys.append(next(group for group in match.groups() if group))
            new = [key for key in keys if isinstance(key, str) and key not in columns and re.fullmatch(r"[\w \-./]+", key)]
            if new and "'str' object" not in text and "'list' object" not in text:
                for key in new:
                    columns[key] = guess(key, tree.get(key), draw)
                continue
            column = draw.choice([name for name in columns if name != "id" and name not in hints] or ["id"])
            if new:
                columns[column] = {draw.choice(["dict", "dicts"]): {key: "text" for key in new}}
            else:
                columns[column] = draw.choice([*TYPES, guess(column, tree.get(column), draw)])
    return None


def functions(config):
    if callable(config):
        yield config
    elif isinstance(config, dict):
        for one in config.values():
            yield from functions(one)
    elif isinstance(config, list):
        for one in config:
            yield from functions(one)


def candidates(library, per_folder=3, per_family=6):
    """Yield task files with their own functions, a few of each folder."""
    families = {}
    for folder, _, files in sorted(os.walk(library)):
        family = os.path.relpath(folder, library).split(os.sep)[0]
        taken, seen = 0, set()
        for file in sorted(files):
            if taken == per_folder:
                break
            if not file.endswith(".yaml") or families.get(family, 0) >= per_family:
                continue
            path = os.path.join(folder, file)
            try:
                config = load_yaml(path)
            except BaseException:  # noqa: BLE001
                continue
            if not isinstance(config.get("task"), str) or config.get("class") or config.get("unsafe_code"):
                continue
            named = tuple(sorted(getattr(one, "__qualname__", "") for one in functions(config)))
            if not named or named in seen:
                continue
            seen.add(named)
            taken += 1
            families[family] = families.get(family, 0) + 1
            yield path


def plain(value):
    """Return a value in terms of JSON."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value - value != 0:
        return "NaN" if value != value else "inf" if value > 0 else "-inf"
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def too_long(*_):
    raise TimeoutError("too long")


def main():
    action, library, cases, *rest = sys.argv[1:]
    signal.signal(signal.SIGALRM, too_long)
    if action == "learn":
        seconds = float(rest[0]) if rest else 8.0
        part, parts = map(int, rest[1:3]) if len(rest) > 2 else (0, 1)
        with open(cases, "w") as file:
            for number, path in enumerate(candidates(library)):
                if number % parts != part or not os.path.relpath(path, library).startswith(tuple(rest[3:]) or ""):
                    continue
                signal.alarm(int(seconds) + 5)
                try:
                    splits = learn(path, library, seconds)
                except BaseException as error:  # noqa: BLE001
                    splits = None
                    print(path, type(error).__name__, str(error)[:100], file=sys.stderr)
                signal.alarm(0)
                print(number, path[len(library) :], "learnt" if splits else "-", file=sys.stderr, flush=True)
                if splits:
                    case = {"path": os.path.relpath(path, library), "splits": splits}
                    file.write(json.dumps(case, ensure_ascii=False) + "\n")
                    file.flush()
        return
    with open(cases) as file, os.fdopen(out, "w") as answers:
        for line in file:
            case = json.loads(line)
            try:
                answer = evaluate(os.path.join(library, case["path"]), case["splits"])
            except Exception as error:  # noqa: BLE001
                answer = {"error": f"{type(error).__name__}: {error}"[:300]}
            answers.write(json.dumps(plain({"path": case["path"]} | answer)) + "\n")


if __name__ == "__main__":
    main()
