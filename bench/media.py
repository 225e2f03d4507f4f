#!/usr/bin/env python3
"""Measures the memory and the time of a run on a Parquet file with images, for several sizes of the dataset.

    cargo build --release -p lmeval-cli -p lmeval-bench
    python3 bench/media.py --rows 1500,6000

Each row has an image of noise, 256 by 256 pixels and 197 KB, in row groups of 100 rows. A stand-in chat server answers at once. Printed are the peak
resident set and the seconds of each run. `--log-samples` also writes samples and previews; `--function` takes the images from a Python function.
Needs `pyarrow`, and Pillow for `--function`.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import pyarrow
import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIDE = 256
FEATURES = {"info": {"features": {"image": {"_type": "Image"}, "q": {"_type": "Value", "dtype": "string"}}}}
TASK = """task: seen
dataset_path: parquet
dataset_kwargs: {data_files: {test: rows.parquet}}
test_split: test
output_type: generate_until
doc_to_image: %s
doc_to_text: "<image>{{q}}"
doc_to_target: "{{'x'}}"
generation_kwargs: {until: [], max_gen_toks: 4}
metric_list: [{metric: exact_match}]
"""
FUNCTION = "def image(doc):\n    return [doc['image']]\n"


def picture():
    """Return a PNG file with noise."""
    rows = b"".join(b"\0" + os.urandom(SIDE * 3) for _ in range(SIDE))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def write(path, rows):
    """Write a Parquet file."""
    cell = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    schema = pyarrow.schema([("q", pyarrow.string()), ("image", cell)], metadata={"huggingface": json.dumps(FEATURES)})
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 100):
            batch = [{"q": f"What is {number}?", "image": {"bytes": picture(), "path": None}} for number in range(start, min(start + 100, rows))]
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="1500,6000")
    parser.add_argument("--binary", default=str(ROOT / "target" / "release" / "lm-eval"))
    parser.add_argument("--server", default=str(ROOT / "target" / "release" / "stand-in-server"))
    parser.add_argument("--log-samples", action="store_true")
    parser.add_argument("--function", action="store_true")
    options = parser.parse_args()
    server = subprocess.Popen([options.server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = json.loads(server.stdout.readline())["url"]
    for rows in map(int, options.rows.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write(folder / "rows.parquet", rows)
            (folder / "steps.py").write_text(FUNCTION)
            (folder / "seen.yaml").write_text(TASK % ("!function steps.image" if options.function else "image"))
            args = f"model=stand-in,base_url={url}/v1/chat/completions,num_concurrent=16"
            call = [options.binary, "run", "--model", "local-chat-completions", "--model_args", args, "--tasks", "seen.yaml", "--apply_chat_template", "--quiet"]
            call += ["--output_path", "out", *(["--log_samples"] if options.log_samples else []), *(["--python", sys.executable] if options.function else [])]
            begin = time.time()
            process = subprocess.Popen(call, cwd=folder, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                sys.exit(f"failed: {' '.join(call)}")
            print(f"{rows:>6} rows: {usage.ru_maxrss / 1024:>7.0f} MiB at most, {time.time() - begin:>6.1f} s", flush=True)
    server.stdin.close()
    server.wait()


if __name__ == "__main__":
    main()
