#!/usr/bin/env python3
"""Sends the same requests to a loopback server with the reference and with lm-eval, and prints the speedups.

    cargo build --release -p lmeval-cli -p lmeval-bench
    python3 bench/throughput.py --python .testenv/bin/python

The server answers immediately and measures requests per second from its first request to its last answer, which excludes start-up
time. Memory is the peak resident set. The time to the first request is measured with an MMLU-like group (57 tasks, 14,042 documents
with four options, 5-shot), from the start of the process to the first request at the server, which ends the run.

`--streams N` measures streamed generations instead: N pairs of runs at concurrency 256, with `stream=True` and `stream=False`, in alternating order.
`--other BINARY` compares with another build, which does not stream.

`--live-view N` measures the cost of `--view` instead: N pairs of runs at concurrency 256, with and without it, in alternating order, while
a client follows the events of the live page as a browser does.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import requests as mmlu  # for its MMLU-like group

WORDS = "time person year way day thing man world life hand part child eye woman place work week case point".split()


class Server:
    """The stand-in server, in its own process."""

    def __init__(self, binary, *arguments):
        self.process = subprocess.Popen([binary, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def counts(self):
        """Return the counts since the last call."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def make_task(folder, documents):
    """Write a generation task with short, distinct prompts."""
    generator = random.Random(0)
    with open(folder / "throughput.jsonl", "w") as file:
        for number in range(documents):
            question = f"{number} " + " ".join(generator.choice(WORDS) for _ in range(60))
            file.write(json.dumps({"q": question, "a": generator.choice(WORDS)}) + "\n")
    (folder / "throughput.yaml").write_text(
        "task: throughput\ndataset_path: json\ndataset_kwargs: {data_files: {test: %s}}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
        "generation_kwargs: {until: [\"\\n\"], max_gen_toks: 16}\nmetric_list: [{metric: exact_match}]\n"
        % (folder / "throughput.jsonl")
    )


def command(program, arguments, folder, tasks, model_args, limit=None):
    """Return the command line of one side."""
    call = [
        *program, "run", "--model", "local-completions", "--model_args", model_args, "--tasks", tasks,
        "--include_path", str(folder), "--output_path", str(folder / "out"), *arguments,
    ]
    return call + (["--limit", str(limit)] if limit else [])


def run(call):
    """Run a command to its end. Return its peak memory in MiB."""
    process = start(call)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(call)}")
    return usage.ru_maxrss / 1024


def start(call):
    """Start a command without output and without network access except to the server."""
    environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    return subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def first_request(call, server):
    """Return the seconds from the start of the process to its first request."""
    server.counts()
    begin = time.time()
    process = start(call)
    try:
        while process.poll() is None:
            counts = server.counts()
            if counts["first"]:
                return counts["first"] - begin
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    counts = server.counts()
    if counts["first"]:
        return counts["first"] - begin
    sys.exit(f"No request arrived: {' '.join(call)}")


def follow(call):
    """Run a command to its end and follow its live page, if it has one. Return CPU seconds and the number of events read."""
    environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    events = 0

    def read(url):
        nonlocal events
        with urllib.request.urlopen(f"{url}api/live") as stream:
            events += sum(line.startswith(b"data:") for line in stream)

    reader = None
    for line in process.stderr:
        address = re.search(r"http://\S+/(?=#/live)", line)
        if address and not reader:
            reader = threading.Thread(target=read, args=(address[0],))
            reader.start()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(call)}")
    if reader:
        reader.join()
    return usage.ru_utime + usage.ru_stime, events


def streams(ours, other, same, folder, server, pairs, documents):
    """Print requests per second with and without streaming, and with another build, and the ratios of each round."""
    args = f"model=stand-in,base_url={server.url}/v1/completions,num_concurrent=256,tokenizer_backend=none,tokenized_requests=False"
    same = [word for word in same if word not in ("--compat", "0.4")]
    ways = {"whole": (ours, f"{args},stream=False"), "streamed": (ours, f"{args},stream=True")}
    if other:
        ways["other build"] = ([other], args)
    rates = {name: [] for name in ways}
    for pair in range(pairs):
        for name in list(ways) if pair % 2 else reversed(list(ways)):
            program, model = ways[name]
            server.counts()
            run(command(program, same, folder, "throughput", model, documents))
            counts = server.counts()
            rates[name].append(counts["requests"] / (counts["last"] - counts["first"]))
            print(f"{name:>12} {rates[name][-1]:>9.0f} per second", flush=True)
    for name in [name for name in ways if name != "whole"]:
        ratios = [one / whole for one, whole in zip(rates[name], rates["whole"])]
        print(f"{name} / whole: median {statistics.median(ratios):.3f} of {', '.join(f'{ratio:.3f}' for ratio in ratios)}")


def live_view(ours, same, folder, server, pairs, documents):
    """Print requests per second and CPU time with and without the live view, and the ratios of each pair."""
    args = f"model=stand-in,base_url={server.url}/v1/completions,num_concurrent=256,tokenizer_backend=none,tokenized_requests=False"
    plain = command(ours, [*same, "--progress", "plain"], folder, "throughput", args, documents)
    ratios = {"rate": [], "CPU time": []}
    for pair in range(pairs):
        rates, times = {}, {}
        for watched in (False, True) if pair % 2 else (True, False):
            server.counts()
            times[watched], events = follow([*plain, "--view"] if watched else plain)
            counts = server.counts()
            rates[watched] = counts["requests"] / (counts["last"] - counts["first"])
            name = "--view" if watched else "without"
            print(f"{name:>8} {rates[watched]:>9.0f} per second, {times[watched]:.2f} s of CPU time, {events} events", flush=True)
        ratios["rate"].append(rates[True] / rates[False])
        ratios["CPU time"].append(times[True] / times[False])
    for name, values in ratios.items():
        print(f"{name} with --view / without: median {statistics.median(values):.3f} of {', '.join(f'{value:.3f}' for value in values)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="an interpreter with lm_eval[api] 0.4.13 and transformers")
    parser.add_argument("--target", default=str(ROOT / "target" / "release"), help="the folder of the built binaries")
    parser.add_argument("--documents", type=int, default=100_000, help="requests at concurrency 256")
    parser.add_argument("--skip-first-request", action="store_true")
    parser.add_argument("--live-view", type=int, metavar="N", help="measure the cost of --view with N pairs of runs")
    parser.add_argument("--streams", type=int, metavar="N", help="measure streamed generations with N pairs of runs")
    parser.add_argument("--other", metavar="BINARY", help="another build of lm-eval, for --streams")
    record.add_argument(parser)
    options = parser.parse_args()
    target = pathlib.Path(options.target)
    reference = [options.python, "-m", "lm_eval"]
    find = "import importlib.util as u; print(u.find_spec('lm_eval').submodule_search_locations[0])"
    library = subprocess.check_output([options.python, "-c", find], text=True).strip() + "/tasks"
    same = ["--compat", "0.4", "--library", library, "--fresh", "--quiet"]
    ours = [str(target / "lm-eval")]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make_task(folder, options.documents)
        server = Server(str(target / "stand-in-server"), "--canned", "--threads", "1")
        if options.live_view:
            live_view(ours, [option for option in same if option != "--quiet"], folder, server, options.live_view, options.documents)
            server.close()
            return
        if options.streams:
            streams(ours, options.other, same, folder, server, options.streams, options.documents)
            server.close()
            return
        endpoint = f"{server.url}/v1/completions"
        print(f"{'concurrency':>11} {'program':>10} {'requests':>9} {'per second':>11} {'MiB':>8}")
        rows = []
        for concurrency, documents in ((1, options.documents // 50), (32, options.documents // 5), (256, options.documents)):
            args = f"model=stand-in,base_url={endpoint},num_concurrent={concurrency},tokenizer_backend=none,tokenized_requests=False"
            rates, sizes = [], []
            for name, program, more in (("reference", reference, []), ("lm-eval", ours, same)):
                server.counts()
                memory = run(command(program, more, folder, "throughput", args, documents))
                counts = server.counts()
                rate = counts["requests"] / (counts["last"] - counts["first"])
                rates.append(rate)
                sizes.append(memory)
                print(f"{concurrency:>11} {name:>10} {counts['requests']:>9} {rate:>11.0f} {memory:>8.1f}", flush=True)
            what = f"{concurrency} in flight, {documents:,} requests"
            rows += [record.row(what, "/s", *rates), record.row(f"{what}: peak memory", "MiB", *sizes)]
            print(f"{'':>11} {'ratio':>10} {'':>9} {rates[1] / rates[0]:>10.1f}x {sizes[0] / sizes[1]:>7.1f}x", flush=True)
        tables = {"rates": record.pair(("reference", "lm-eval"), rows)}
        if not options.skip_first_request:
            group = folder / "mmlu"
            group.mkdir()
            mmlu.make_library(group)
            server.close()
            server = Server(str(target / "stand-in-server"))
            endpoint = f"{server.url}/v1/completions"
            tokenizer = ROOT / "crates/lmeval-tokenizers/tests/data/tokenizer"
            args = f"model=stand-in,base_url={endpoint},tokenizer_backend=huggingface,tokenizer={tokenizer},max_length=8192"
            times = []
            for name, program, more in (("reference", reference, ["--num_fewshot", "5"]), ("lm-eval", ours, [*same, "--num_fewshot", "5"])):
                seconds = first_request(command(program, more, group, "bench", args), server)
                times.append(seconds)
                print(f"first request, MMLU-like group: {name:>10} {seconds:.3f} s", flush=True)
            print(f"first request, MMLU-like group: {times[0] / times[1]:.0f} times sooner")
            tables["first"] = record.pair(("reference", "lm-eval"), [record.row("to the first request at the server", "s", *times)])
        server.close()
        if options.save:
            record.save("throughput", __file__, tables)


if __name__ == "__main__":
    main()
