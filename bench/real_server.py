#!/usr/bin/env python3
"""Evaluates a model on a real server with the reference and with lm-eval, and compares all scores and samples.

    cargo build --release -p lmeval-cli
    python3 bench/real_server.py --python .testenv/bin/python --server http://127.0.0.1:8000/v1/completions \\
        --model my-model --tokenizer path/to/tokenizer

`--python` needs the reference (`lm_eval[api]==0.4.13` and `transformers`); `--tokenizer` is a folder with `tokenizer.json`. See
docs/dev/real-servers.md for how to start such servers and which `--model-args` they need.

The tasks are generated: multiple choice with four options, the last word of a saying, generation with stop strings (all 2-shot), and
rolling log-likelihoods. Both sides get the same arguments. Every metric, standard error and log-likelihood must be within the
tolerance, which is relative for values above 1. Prompts, generations and greedy flags must be equal. With `--noise`, the reference
runs twice, and its difference from itself is printed too: servers that batch or cache prefixes give slightly different numbers each
time.

Seconds are those of whole processes. The second side finds a warm server, so a few prompts are sent before the first. The exit status
is 1 if anything differs.
"""

import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent

CAPITALS = """
France Paris, Japan Tokyo, Iceland Reykjavík, Colombia Bogotá, Brazil Brasília, Norway Oslo, Egypt Cairo, Kenya Nairobi,
Peru Lima, Canada Ottawa, Austria Vienna, Greece Athens, Portugal Lisbon, Ireland Dublin, Cuba Havana, Poland Warsaw,
Finland Helsinki, Sweden Stockholm, Denmark Copenhagen, Hungary Budapest, Turkey Ankara, Iran Tehran, Iraq Baghdad,
Thailand Bangkok, Vietnam Hanoi, Nepal Kathmandu, Chile Santiago, Ecuador Quito, Paraguay Asunción, Togo Lomé, Ghana Accra,
Senegal Dakar, Morocco Rabat, Italy Rome, Spain Madrid, Germany Berlin, Russia Moscow, China Beijing
"""

SAYINGS = """
The early bird catches the worm/Actions speak louder than words/A picture is worth a thousand words/Practice makes perfect/
Better late than never/The pen is mightier than the sword/Rome was not built in a day/All that glitters is not gold/
Where there is smoke there is fire/Do not judge a book by its cover/When in Rome, do as the Romans do/Honesty is the best policy/
The apple does not fall far from the tree/You cannot teach an old dog new tricks/Every cloud has a silver lining/
Two wrongs do not make a right/An apple a day keeps the doctor away/Birds of a feather flock together/Time is money/
A watched pot never boils/Curiosity killed the cat/Beggars cannot be choosers/The grass is always greener on the other side/
Do not put all your eggs in one basket/Too many cooks spoil the broth/Absence makes the heart grow fonder/Fortune favors the bold/
A chain is only as strong as its weakest link/Necessity is the mother of invention/Blood is thicker than water/Haste makes waste/
Let sleeping dogs lie/Look before you leap/The squeaky wheel gets the grease/There is no place like home/No man is an island/
A penny saved is a penny earned/Cleanliness is next to godliness
"""

SHARED = """
dataset_path: json
dataset_kwargs: {data_files: {dev: FOLDER/TASK_dev.jsonl, test: FOLDER/TASK_test.jsonl}}
test_split: test
"""
FEW_SHOT = "fewshot_split: dev\nnum_fewshot: 2\n"

TASKS = {
    "real_choice": FEW_SHOT
    + r"""
output_type: multiple_choice
description: "Countries and capitals.\n\n"
doc_to_text: "The capital of {{country}} is"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list: [{metric: acc}, {metric: acc_norm}, {metric: brier_score}]
""",
    "real_last_word": FEW_SHOT
    + r"""
output_type: loglikelihood
doc_to_text: "{{saying.rsplit(' ', 1)[0]}}"
doc_to_target: "{{' ' + saying.rsplit(' ', 1)[1]}}"
target_delimiter: ""
metric_list: [{metric: acc}, {metric: perplexity}]
""",
    "real_rolling": r"""
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
""",
    "real_generation": FEW_SHOT
    + r"""
output_type: generate_until
doc_to_text: "Question: What is the capital of {{country}}?\nAnswer:"
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["\n\n", "Question:"], max_gen_toks: 24, do_sample: false}
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]
filter_list:
  - name: whole
    filter: [{function: remove_whitespace}, {function: take_first}]
  - name: first-word
    filter: [{function: regex, regex_pattern: "(\\w+)"}, {function: take_first}]
""",
}
DEV = 8


def make_library(folder):
    """Write task files and documents. Return the number of evaluated documents per task."""
    generator = random.Random(0)
    capitals = [tuple(pair.strip().rsplit(" ", 1)) for pair in CAPITALS.replace("\n", " ").split(",")]
    sayings = [saying.strip() for saying in SAYINGS.replace("\n", " ").split("/")]

    def choice(number):
        country, capital = capitals[number]
        choices = [capital, *generator.sample([other for _, other in capitals if other != capital], 3)]
        generator.shuffle(choices)
        return {"country": country, "choices": choices, "answer": choices.index(capital)}

    def text(number):
        facts = [f"{capital} is the capital of {country}." for country, capital in generator.sample(capitals, 3)]
        sentences = [f"{saying}." for saying in generator.sample(sayings, 3)] + facts
        generator.shuffle(sentences)
        return {"text": f"Chapter {number + 1}\n\n" + " ".join(sentences[: generator.randint(1, 5)])}

    documents = {
        "real_choice": [choice(number) for number in range(len(capitals))],
        "real_last_word": [{"saying": saying} for saying in sayings],
        "real_rolling": [text(number) for number in range(len(capitals))],
        "real_generation": [choice(number) for number in range(len(capitals))],
    }
    for task, rows in documents.items():
        for split, part in (("dev", rows[:DEV]), ("test", rows[DEV:])):
            with open(folder / f"{task}_{split}.jsonl", "w") as file:
                file.writelines(json.dumps(row) + "\n" for row in part)
        shared = SHARED.replace("FOLDER", str(folder)).replace("TASK", task)
        (folder / f"{task}.yaml").write_text(f"task: {task}{shared}{TASKS[task]}")
    return {task: len(rows) - DEV for task, rows in documents.items()}


def ask(server, body):
    request = urllib.request.Request(server, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=300) as answer:
        return json.load(answer)


def check_server(arguments):
    """Exit if the server does not return correct log-probabilities of prompt tokens: equal answers would mean nothing."""
    prompt = "Countries and capitals.\n\nThe capital of France is"
    body = {"model": arguments.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 1}
    (generated,) = ask(arguments.server, body)["choices"]
    (echoed,) = ask(arguments.server, dict(body, prompt=prompt + generated["text"], echo=True))["choices"]
    if not generated.get("logprobs") or not echoed.get("logprobs"):
        sys.exit("The server returns no log-probabilities")
    expected, found = generated["logprobs"]["token_logprobs"][-1], echoed["logprobs"]["token_logprobs"]
    if len(found) < 3:
        sys.exit("The server ignores `echo`: only generation can be compared, with `--tasks real_generation`")
    # The last one belongs to the token generated after the prompt.
    if abs(found[-2] - expected) > 0.05:
        text = f"`{generated['text']}` has {expected:.4f} when generated and {found[-2]:.4f} when echoed"
        sys.exit(f"The server's log-probabilities of prompt tokens are wrong: {text}")


def evaluate(program, folder, output, arguments):
    """Run one side. Return its scores, samples and seconds."""
    model = f"model={arguments.model},base_url={arguments.server},tokenizer_backend=huggingface,tokenizer={arguments.tokenizer}"
    if arguments.model_args:
        model += f",{arguments.model_args}"
    command = [*program, "--model", "local-completions", "--model_args", model, "--tasks", ",".join(arguments.tasks)]
    command += ["--include_path", str(folder), "--batch_size", str(arguments.batch_size)]
    command += ["--output_path", str(output), "--log_samples"]
    environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_CACHE=str(folder / "cache"), NO_PROXY="127.0.0.1,localhost")
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-4000:]}\n{program[0]} failed with status {done.returncode}")
    (results,) = output.rglob("results_*.json")
    scores = json.loads(results.read_text())["results"]
    samples = {}
    for task in arguments.tasks:
        (file,) = output.rglob(f"samples_{task}_*.jsonl")
        # Not `splitlines`: strings may contain other line separators.
        rows = [json.loads(line) for line in file.read_text().split("\n") if line]
        samples[task] = {(row["filter"], row["doc_id"]): row for row in rows}
    return scores, samples, seconds


def number(value):
    """Convert a value of a results or samples file to a number, if it is one."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def leaves(value):
    if isinstance(value, list):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


class Comparison:
    """The differences between two runs."""

    def __init__(self, tolerance):
        self.tolerance = tolerance
        self.largest = 0.0
        self.problems = []
        self.values = 0

    def same(self, where, left, right):
        """Compare two leaves: numbers within the tolerance, everything else for equality. Return the difference of numbers."""
        self.values += 1
        one, other = number(left), number(right)
        if one is None or other is None or isinstance(left, str) != isinstance(right, str):
            if str(left) != str(right):
                self.problems.append(f"{where}: {left!r} and {right!r}")
            return 0.0
        if one == other or (math.isnan(one) and math.isnan(other)):
            return 0.0
        difference = abs(one - other)
        self.largest = max(self.largest, difference)
        # Written so that NaN counts as a difference.
        if not difference <= self.tolerance * max(1.0, abs(one)):
            self.problems.append(f"{where}: {left} and {right}")
        return difference


def compare_scores(tasks, left, right, tolerance, show):
    found = Comparison(tolerance)
    for task in tasks:
        for key in sorted((left[task].keys() | right[task].keys()) - {"alias", "name"}):
            one, other = left[task].get(key), right[task].get(key)
            difference = found.same(f"{task} {key}", one, other)
            if show and key not in ("sample_len", "sample_count"):
                texts = [value if isinstance(value, str) else f"{value:.6f}" for value in (one, other) if value is not None]
                print(f"{task:18}{key:34}{texts[0]:>16}{texts[-1]:>16}{difference:>12.1e}")
    return found


def compare_samples(tasks, left, right, tolerance):
    found = Comparison(tolerance)
    for task in tasks:
        if left[task].keys() != right[task].keys():
            found.problems.append(f"{task}: other documents")
        for key in left[task].keys() & right[task].keys():
            one, other = left[task][key], right[task][key]
            where = f"{task} document {key[1]} ({key[0]})"
            for name in ("doc_hash", "prompt_hash", "target_hash", "target"):
                if one[name] != other[name]:
                    found.problems.append(f"{where}: {name} differs")
            for name in ("resps", "filtered_resps"):
                parts = leaves(one[name]), leaves(other[name])
                if len(parts[0]) != len(parts[1]):
                    found.problems.append(f"{where}: {name} has {len(parts[0])} and {len(parts[1])} values")
                for answers in zip(*parts):
                    found.same(f"{where} {name}", *answers)
    return found


def unscored(tasks, samples):
    """Count continuations without a scored token: see docs/dev/real-servers.md on end-of-text tokens."""
    answers = [answer for task in tasks for row in samples[task].values() for answer in row["resps"]]
    return sum(isinstance(answer[0], list) and number(answer[0][0]) == 0 for answer in answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the URL of /v1/completions")
    parser.add_argument("--model", required=True, help="the model's name on the server")
    parser.add_argument("--tokenizer", required=True, type=os.path.abspath, help="a folder with tokenizer.json")
    parser.add_argument("--python", default=str(ROOT / ".testenv/bin/python"))
    parser.add_argument("--binary", default=str(ROOT / "target/release/lm-eval"))
    parser.add_argument("--model-args", default="", help="additional model arguments for both sides, such as tokenized_requests=False")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--tasks", default=",".join(TASKS), type=lambda names: names.split(","))
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--noise", action="store_true", help="run the reference twice")
    parser.add_argument("--keep", type=pathlib.Path, help="an empty folder to keep tasks and outputs in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = (arguments.keep or pathlib.Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        counts = make_library(folder)
        for _ in range(3):
            ask(arguments.server, {"model": arguments.model, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0})
        if arguments.tasks != ["real_generation"]:
            check_server(arguments)
        reference = [arguments.python, "-m", "lm_eval", "run"]
        theirs = evaluate(reference, folder, folder / "reference", arguments)
        again = evaluate(reference, folder, folder / "reference-again", arguments) if arguments.noise else None
        own = evaluate([arguments.binary, "run", "--compat", "0.4"], folder, folder / "lm-eval", arguments)
    print(f"{sum(counts[task] for task in arguments.tasks)} documents in {len(arguments.tasks)} tasks")
    print(f"{'task':18}{'metric':34}{'reference':>16}{'lm-eval':>16}{'difference':>12}")
    scores = compare_scores(arguments.tasks, theirs[0], own[0], arguments.tolerance, show=True)
    samples = compare_samples(arguments.tasks, theirs[1], own[1], arguments.tolerance)
    print(f"\nlargest difference of {scores.values} scores and counts: {scores.largest:.2e}")
    print(f"largest difference of {samples.values} values of samples: {samples.largest:.2e}")
    if again:
        noise = compare_scores(arguments.tasks, theirs[0], again[0], arguments.tolerance, show=False)
        noise_samples = compare_samples(arguments.tasks, theirs[1], again[1], arguments.tolerance)
        count = len(noise.problems) + len(noise_samples.problems)
        print(f"reference against itself: scores {noise.largest:.2e}, samples {noise_samples.largest:.2e}, {count} differences")
    empty = [unscored(arguments.tasks, run[1]) for run in (theirs, own)]
    print(f"continuations without a scored token: reference {empty[0]}, lm-eval {empty[1]}")
    print(f"seconds: reference {theirs[2]:.1f}, lm-eval {own[2]:.1f}, ratio {theirs[2] / own[2]:.2f}")
    problems = scores.problems + samples.problems
    for problem in problems[:40]:
        print(f"DIFFERENT {problem}")
    if problems:
        sys.exit(f"{len(problems)} differences")
    print("no differences")


if __name__ == "__main__":
    main()
