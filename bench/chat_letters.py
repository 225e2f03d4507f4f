#!/usr/bin/env python3
"""Compares letters by log-probability on a real chat server with the log-likelihood route of the same model in `hf`.

    cargo build --release -p lmeval-cli
    .testenv/bin/python bench/chat_letters.py --server http://127.0.0.1:8000/v1/chat/completions --model-folder SmolLM2 \\
        --data hf_datasets/hails/mmlu_no_train --rows 500

Run it with a Python that has pyarrow. `--model-folder` has the weights that the server runs and their chat template, as a folder or a GGUF
file; `--data` is a `save_to_disk` copy of MMLU with one folder per subject (see docs/dev/real-servers.md). Rows are drawn evenly from all
subjects with a fixed seed and written as a task like MMLU's, with its own letters. Both sides get the same messages: the server applies
the template itself. `--out` keeps the samples of both runs, and a run that was interrupted continues from them.

Prints the share of rows with the same most likely letter, how far log-probabilities are apart, and for the rows with another letter all
letters with their log-probabilities on both sides, and the margin by which the log-likelihood route decided. The exit status is 1 below
`--least`.
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

TASK = """
task: letters
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/rows.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nC. {{choices[2]}}\\nD. {{choices[3]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
metric_list: [{metric: acc}]
"""


def read_rows(data, count, longest):
    """Return rows of all subjects, the same number of each as far as possible."""
    import pyarrow

    generator = random.Random(0)
    subjects = []
    for folder in sorted(path.parent for path in data.rglob("test/dataset_info.json")):
        rows = []
        for part in sorted(folder.glob("*.arrow")):
            with pyarrow.memory_map(str(part)) as file:
                rows += pyarrow.ipc.open_stream(file).read_all().to_pylist()
        rows = [row for row in rows if sum(map(len, row["choices"])) + len(row["question"]) <= longest]
        generator.shuffle(rows)
        subjects.append(rows)
    chosen = []
    while len(chosen) < count and any(subjects):
        chosen += [rows.pop() for rows in subjects if rows]
    return [{key: row[key] for key in ("question", "choices", "answer")} for row in chosen[:count]]


def run(binary, folder, name, arguments):
    """Run the task; return the letters' log-probabilities by document, and the seconds it took."""
    out = folder / name
    words = [binary, "run", "--tasks", str(folder / "letters.yaml"), "--apply_chat_template", "--log_samples"]
    began = time.monotonic()
    done = subprocess.run([*words, "--output_path", str(out), *arguments], stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit(f"the run `{name}` failed with status {done.returncode}")
    seconds = time.monotonic() - began
    found = {}
    with open(max(out.rglob("samples_letters_*.jsonl"))) as file:
        for line in map(json.loads, file):
            answers = line["resps"]
            if len(answers) == 1:  # one request for all letters
                values = [-math.inf if entry[0] == "None" else float(entry[0]) for entry in answers[0][0]]
            else:
                values = [float(entry[0][0]) for entry in answers]
            found[line["doc_id"]] = values
    results = json.loads(max(out.rglob("results_*.json")).read_text())
    return found, results, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--server-model", default="m")
    parser.add_argument("--model-folder", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--least", type=float, default=0.98)
    parser.add_argument("--longest", type=int, default=2000, help="characters of question and options")
    parser.add_argument("--out", type=pathlib.Path, help="keeps the files of both runs in this folder")
    parser.add_argument("--binary", default=str(ROOT / "target/release/lm-eval"))
    parser.add_argument("--hf-binary", help="another binary for the log-likelihood route")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = (options.out or pathlib.Path(folder)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        rows = read_rows(options.data, options.rows, options.longest)
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "letters.yaml").write_text(TASK.replace("FOLDER", str(folder)))
        local = ["--model", "hf", "--model_args", f"pretrained={options.model_folder},dtype=float32"]
        exact, exact_results, exact_seconds = run(options.hf_binary or options.binary, folder, "hf", local)
        served = ["--model", "local-chat-completions", "--choices", "letters", "--model_args"]
        served += [f"model={options.server_model},base_url={options.server},num_concurrent=4"]
        letters, letters_results, seconds = run(options.binary, folder, "server", served)
    same, margins, apart = 0, [], []
    for document, expected in sorted(exact.items()):
        found = letters[document]
        best, other = expected.index(max(expected)), found.index(max(found))
        ranked = sorted(expected, reverse=True)
        margins.append(ranked[0] - ranked[1])
        apart += [abs(one - two) for one, two in zip(expected, found, strict=True) if math.isfinite(two)]
        if best == other:
            same += 1
            continue
        shown = ", ".join(f"{'ABCD'[i]} {expected[i]:.4f}/{found[i]:.4f}" for i in range(4))
        print(f"row {document}: {'ABCD'[best]} / {'ABCD'[other]}, margin {margins[-1]:.4f}: {shown}")
    share = same / len(exact)
    audit = letters_results["audit"]["letters"]["none"]
    print(f"rows {len(exact)}, same letter {same} ({100 * share:.1f} %), median margin {sorted(margins)[len(margins) // 2]:.4f}")
    apart.sort()
    print(f"log-probability of a listed letter: median difference {apart[len(apart) // 2]:.4f}, largest {apart[-1]:.4f}")
    print(f"acc {exact_results['results']['letters']['acc,none']:.4f} by log-likelihood in {exact_seconds:.0f} s")
    print(f"acc {letters_results['results']['letters']['acc,none']:.4f} by letters in {seconds:.0f} s")
    print(f"letters missing in {audit['letters_missing']} rows, none listed in {audit['letters_absent']}, acc_bounds {audit['acc_bounds']}")
    return 0 if share >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
