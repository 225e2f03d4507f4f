"""Datasets with drawings and tones, and a model that hashes what it gets."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import engine

LIBRARY = os.environ.get("LM_EVAL_TEST_LIBRARY")

FORMATS: list[tuple[str, str, dict[str, Any]]] = [
    ("PNG", "RGB", {}),
    ("JPEG", "RGB", {"quality": 80}),
    ("PNG", "RGBA", {}),
    ("PNG", "P", {}),
    ("PNG", "L", {}),
    ("JPEG", "RGB", {"orientation": 6}),
    ("WEBP", "RGB", {"lossless": True}),
    ("GIF", "P", {}),
    ("BMP", "RGB", {}),
    ("TIFF", "RGB", {}),
    ("PNG", "1", {}),
]
"""What images a dataset may have: format, mode, and options of the encoder."""

HASHING_MODEL = """
import hashlib, json, sys, warnings
warnings.simplefilter("ignore")
import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager
from PIL import Image

def digest(data):
    return hashlib.sha256(data).hexdigest()

def seen(value):
    if isinstance(value, Image.Image):
        return ["image", value.mode, list(value.size), digest(value.tobytes())]
    if hasattr(value, "dtype"):
        return ["array", str(value.dtype), list(value.shape), digest(value.tobytes())]
    if isinstance(value, dict):
        return {name: seen(item) for name, item in value.items()}
    return [seen(item) for item in value] if isinstance(value, (list, tuple)) else value

class Hashing(LM):
    MULTIMODAL = True

    def __init__(self):
        super().__init__()
        self.requests = []

    def loglikelihood(self, requests):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def generate_until(self, requests):
        answers = []
        for request in requests:
            arguments = json.dumps(seen(request.args), sort_keys=True)
            self.requests.append(arguments)
            answers.append("Final Answer: " + "ABC"[int(digest(arguments.encode()), 16) % 3])
        return answers

if __name__ == "__main__":
    names, folders, options = sys.argv[1].split(","), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    model = Hashing()
    manager = TaskManager(include_path=folders)
    found = lm_eval.simple_evaluate(model=model, tasks=names, task_manager=manager, bootstrap_iters=0, **options)
    scores = {task: {key: value for key, value in entry.items() if "," in key} for task, entry in found["results"].items()}
    print("RESULT " + json.dumps({"requests": sorted(model.requests), "scores": scores}, sort_keys=True))
"""


def is_installed() -> bool:
    """Whether Pillow and the library `datasets` are installed."""
    try:
        import datasets
        import PIL  # noqa: F401
    except ImportError:
        return False
    return not getattr(datasets, "__lm_eval__", False)


def drawing(number: int, mode: str = "RGB", size: tuple[int, int] = (48, 32)) -> Any:
    """Return an image of Pillow with coloured rectangles."""
    from PIL import Image, ImageDraw

    generator = random.Random(number)
    image = Image.new("RGB", size, tuple(generator.randrange(256) for _ in range(3)))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        left, right = sorted(generator.randrange(size[0]) for _ in range(2))
        top, bottom = sorted(generator.randrange(size[1]) for _ in range(2))
        draw.rectangle([left, top, right, bottom], fill=tuple(generator.randrange(256) for _ in range(3)))
    return image.convert(mode)


def encoded(number: int, kind: int = 0, size: tuple[int, int] = (48, 32)) -> bytes:
    """Return a drawing as a file in one of the formats."""
    from PIL import Image

    form, mode, options = FORMATS[kind % len(FORMATS)]
    options = dict(options)
    if "orientation" in options:
        exif = Image.Exif()
        exif[0x0112] = options.pop("orientation")
        options["exif"] = exif
    buffer = io.BytesIO()
    drawing(number, mode, size).save(buffer, format=form, **options)
    return buffer.getvalue()


def tone(number: int, seconds: float = 0.05, rate: int = 16000) -> bytes:
    """Return a WAV file with a sawtooth."""
    count = int(seconds * rate)
    samples = [((index * (number + 3) * 97) % 40000) - 20000 for index in range(count)]
    content = struct.pack(f"<{count}h", *samples)
    head = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", len(body)) + body


def cell(data: bytes | None) -> Any:
    """Return what a column of images stores."""
    return None if data is None else {"bytes": data, "path": None}


def write_parquet(path: Path, rows: list[dict[str, Any]], **features: Any) -> None:
    """Write rows with the schema of the library `datasets`; columns without a feature are strings."""
    import datasets
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {name: features.get(name, datasets.Value("string")) for name in rows[0]}
    schema = datasets.Features(kinds).arrow_schema
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)


def write_charts(path: Path, count: int = len(FORMATS)) -> None:
    """Write rows like those of chartqa."""
    import datasets

    rows = [
        {"query": f"What is bar {number}?", "label": ["B" if number % 2 else "7"], "image": cell(encoded(number, number))}
        for number in range(count)
    ]
    write_parquet(path, rows, image=datasets.Image(), label=datasets.Sequence(datasets.Value("string")))


def write_exams(path: Path, count: int = 8) -> None:
    """Write rows like those of mmmu: up to seven images, of which the text names some, also twice."""
    import datasets

    rows = []
    for number in range(count):
        is_choice = number % 3 != 0
        row: dict[str, Any] = {
            "id": f"validation_{number}",
            "question": f"Given <image 1> and <image {1 + number % 3}>, which?",
            "options": str([f"<image {1 + (number + 1) % 3}>", "two", "three"]) if is_choice else "[]",
            "answer": "A" if is_choice else "7",
            "question_type": "multiple-choice" if is_choice else "open",
        }
        for index in range(1, 8):
            row[f"image_{index}"] = cell(encoded(10 * number + index, number + index) if index <= 3 else None)
        rows.append(row)
    write_parquet(path, rows, **{f"image_{index}": datasets.Image() for index in range(1, 8)})


def asked(
    folder: Path, names: str, folders: list[str], is_reference: bool, program: str = HASHING_MODEL, **options: Any
) -> Any:
    """Evaluate tasks with the hashing model, under 0.4.13 or under this package."""
    (folder / "hashing.py").write_text(program, encoding="utf-8")
    paths = "" if is_reference else str(engine.REPOSITORY / "python")
    done = subprocess.run(
        [sys.executable, "hashing.py", names, json.dumps(folders), json.dumps(options)],
        env={
            **os.environ,
            "HF_HOME": str(folder / "home"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": paths,
            "LM_EVAL_COMPAT": "0.4",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise AssertionError(f"{done.stdout}\n{done.stderr}")
    return json.loads(lines[0].removeprefix("RESULT "))
