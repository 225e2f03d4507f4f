"""Images and sounds: a Python model gets what 0.4.13 gives it."""

from __future__ import annotations

import io
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

from lm_eval import _media
from lm_eval._protocol import _from_wire, to_wire

from tests import media

STEPS = """\
import io
import numpy as np
from PIL import Image, ImageDraw

def keep_odd(dataset):
    return dataset.filter(lambda row: int(row["query"].split()[-1][:-1]) % 2 == 1).map(lambda row: {"query": row["query"] + "!"})

def cropped(doc):
    return [doc["image"].crop((4, 4, 20, 16)), doc["image"]]

def marked(doc):
    image = doc["image"].convert("RGB")
    ImageDraw.Draw(image).line((0, 0, 10, 10), fill=(255, 0, 0))
    own = doc["image"]
    own.paste(0, (0, 0, 3, 3))
    return [image, own]

def grey(doc):
    return [doc["image"].convert("L"), doc["image"].resize((7, 5))]

def nothing(doc):
    return None if "1" in doc["query"] else [doc["image"]]

def heard(doc):
    samples = np.asarray(doc["samples"], dtype=np.float32)
    return [{"array": samples, "sampling_rate": doc["rate"]}, {"array": samples.astype(np.float64)[::2], "sampling_rate": 8000}]
"""

CHART = """\
dataset_path: parquet
dataset_kwargs: {data_files: {test: data/charts.parquet}}
test_split: test
output_type: generate_until
doc_to_text: '<image>{{query}}'
doc_to_target: '{{label[0]}}'
generation_kwargs: {until: [], max_gen_toks: 16, temperature: 0.0, do_sample: false}
metric_list: [{metric: exact_match}]
"""

VARIANTS = {
    "by_name": "doc_to_image: image\n",
    "by_list": "doc_to_image: [image, image]\n",
    "kept": "doc_to_image: [image]\nprocess_docs: !function steps.keep_odd\n",
    "cropped": "doc_to_image: !function steps.cropped\n",
    "marked": "doc_to_image: !function steps.marked\n",
    "grey": "doc_to_image: !function steps.grey\n",
    "nothing": "doc_to_image: !function steps.nothing\n",
    "shots": "doc_to_image: [image]\nfewshot_split: test\nnum_fewshot: 2\nfewshot_config: {sampler: first_n}\n",
}


@unittest.skipUnless(media.is_installed(), "Pillow or `datasets` is not installed")
class Golden(unittest.TestCase):
    """Prompts, images in order, and scores, beside 0.4.13."""

    def setUp(self) -> None:
        """Make an empty folder."""
        if os.environ.get("LM_EVAL_TEST_PYTHON") is None:
            self.skipTest("`LM_EVAL_TEST_PYTHON` names no interpreter with the reference")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compare(self, names: list[str], folders: list[str], **options: Any) -> Any:
        """Check that both evaluate tasks in the same way."""
        ours = media.asked(self.folder, ",".join(names), folders, is_reference=False, **options)
        reference = media.asked(self.folder, ",".join(names), folders, is_reference=True, **options)
        self.assertEqual(ours, reference)
        return ours

    def test_tasks_of_the_library(self) -> None:
        """The tasks `chartqa`, `mmmu_val_accounting` and `pisa_en` on rows of the same schema."""
        if media.LIBRARY is None:
            self.skipTest("`LM_EVAL_TEST_LIBRARY` is not set")
        import datasets

        media.write_charts(self.folder / "HuggingFaceM4/ChartQA/data/test-0.parquet")
        media.write_exams(self.folder / "MMMU/MMMU/Accounting/validation-0.parquet")
        self.describe("MMMU/MMMU", "Accounting", "validation", "Accounting/*")
        self.describe("PisaBench/pisa-bench", "default", "en", "data/*")
        rows = [
            {"question": f"Q{number}", "choices": "['a', 'b', 'c', 'd']", "answer": number % 4, "image": image}
            for number, image in enumerate([media.cell(media.encoded(1)), None, media.cell(media.encoded(2, 1))])
        ]
        pisa = self.folder / "PisaBench/pisa-bench/data/en-0.parquet"
        media.write_parquet(pisa, rows, image=datasets.Image(), answer=datasets.Value("int64"))
        folders = [f"{media.LIBRARY}/{name}" for name in ("chartqa", "mmmu", "pisa")]
        found = self.compare(["chartqa", "mmmu_val_accounting", "pisa_en"], folders)
        self.assertEqual(len(found["requests"]), len(media.FORMATS) + 8 + 3)

    def describe(self, folder: str, config: str, split: str, path: str) -> None:
        """Write the README of a dataset with one configuration and split."""
        card = f"configs: [{{config_name: {config}, data_files: [{{split: {split}, path: {path}}}]}}]"
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        (self.folder / folder / "README.md").write_text(f"---\n{card}\n---\n", encoding="utf-8")

    def test_fields_and_functions(self) -> None:
        """Columns, lists of columns, functions that change images, filtered datasets, and examples."""
        (self.folder / "tasks").mkdir()
        media.write_charts(self.folder / "data/charts.parquet")
        (self.folder / "tasks/steps.py").write_text(STEPS, encoding="utf-8")
        for name, extra in VARIANTS.items():
            (self.folder / f"tasks/{name}.yaml").write_text(f"task: {name}\n{CHART}{extra}", encoding="utf-8")
        found = self.compare(list(VARIANTS), ["tasks"])
        self.assertEqual(len(found["requests"]), 5 + 7 * len(media.FORMATS))

    def test_sounds_as_arrays(self) -> None:
        """Arrays that a function computes, with their sampling rates."""
        import datasets

        (self.folder / "tasks").mkdir()
        rows = [{"query": f"Q{n}", "label": ["x"], "samples": [n / 7, -0.25, 0.1], "rate": 16000 + n} for n in range(4)]
        kinds = {
            "label": datasets.Sequence(datasets.Value("string")),
            "samples": datasets.Sequence(datasets.Value("float32")),
            "rate": datasets.Value("int64"),
        }
        media.write_parquet(self.folder / "data/charts.parquet", rows, **kinds)
        (self.folder / "tasks/steps.py").write_text(STEPS, encoding="utf-8")
        text = CHART.replace("<image>", "<audio>") + "doc_to_audio: !function steps.heard\n"
        (self.folder / "tasks/heard.yaml").write_text(f"task: heard\n{text}", encoding="utf-8")
        self.assertEqual(len(self.compare(["heard"], ["tasks"])["requests"]), 4)


class Wire(unittest.TestCase):
    """What goes to the engine and back."""

    def sent(self, value: Any) -> Any:
        """Return a value as the other side gets it."""
        import json

        text = json.dumps(to_wire(value))
        return json.loads(text, object_hook=_from_wire(lambda *_: None))

    @unittest.skipUnless(media.is_installed(), "Pillow is not installed")
    def test_unchanged_images_keep_their_file(self) -> None:
        """A copy with the same pixels is another image; one changed in place is not its file any more."""
        file = _media.File("image", media.encoded(3, 1), "a.jpg", None)
        image = _media.opened(file)
        image.load()
        self.assertEqual(_media.file_of(self.sent(image)), file)
        image.paste(0, (0, 0, 5, 5))
        changed = self.sent(image)
        self.assertNotEqual(_media.file_of(changed), file)
        self.assertEqual(changed.tobytes(), image.tobytes())

    @unittest.skipUnless(media.is_installed(), "Pillow is not installed")
    def test_damaged_images_are_dictionaries(self) -> None:
        """Code that does not look at an image does not fail because of it."""
        image = self.sent(_media.File("image", b"\x89PNG damaged", "a.png", None))
        self.assertEqual(image["path"], "a.png")
        with self.assertRaisesRegex(OSError, "The image `a.png` cannot be opened"):
            image.convert("RGB")

    @unittest.skipUnless(media.is_installed(), "Pillow is not installed")
    def test_resized_images(self) -> None:
        """Sizes are those that 0.4.13 gives an image of 48 by 32 pixels, which it never enlarges."""
        from lm_eval.models.utils import resize_image

        image = media.drawing(1)
        cases: list[tuple[dict[str, Any], tuple[int, int]]] = [
            ({}, (48, 32)),
            ({"width": 60}, (48, 32)),
            ({"width": 24}, (24, 16)),
            ({"width": 20, "height": 9}, (13, 9)),
            ({"max_dimension": 21}, (21, 14)),
            ({"max_dimension": 100}, (48, 32)),
            ({"width": 1}, (1, 1)),
            ({"width": 60, "height": 60, "keep_aspect_ratio": False}, (48, 32)),
            ({"width": 10, "height": 60, "keep_aspect_ratio": False}, (10, 60)),
            ({"width": 10, "keep_aspect_ratio": False}, (10, 6)),
        ]
        for options, size in cases:
            self.assertEqual(resize_image(image, **options).size, size, options)
        # 49 / 49 * 9 is 9; 49 * (9 / 49) is less.
        self.assertEqual(resize_image(media.drawing(1, size=(49, 49)), width=9).size, (9, 9))

    def test_sounds(self) -> None:
        """A WAV file is decoded without other libraries; other formats name what decodes them."""
        try:
            import numpy as np
        except ImportError:
            self.skipTest("numpy is not installed")
        sound = self.sent(_media.File("audio", media.tone(1), "a.wav", None))
        self.assertEqual((sound["array"].dtype, sound["sampling_rate"]), (np.dtype("float32"), 16000))
        self.assertEqual(len(sound["array"]), 800)
        self.assertEqual(float(sound["array"][0]), -20000 / 32768)
        self.assertEqual(_media.file_of(self.sent(sound)), sound.file)
        array = np.linspace(-1, 1, 5)
        again = self.sent({"array": array, "sampling_rate": 8000})
        self.assertEqual((again["array"].tolist(), again["sampling_rate"]), (array.tolist(), 8000))
        self.assertIsInstance(self.sent({"array": [1.5], "sampling_rate": 3})["array"], list)

    @unittest.skipUnless(media.is_installed(), "Pillow is not installed")
    def test_formats(self) -> None:
        """Every format and mode comes back with the same pixels."""
        from PIL import Image

        for kind in range(len(media.FORMATS)):
            own = Image.open(io.BytesIO(media.encoded(5, kind)))
            again = self.sent(own)
            self.assertEqual((again.mode, again.size, again.tobytes()), (own.mode, own.size, own.tobytes()))


if __name__ == "__main__":
    unittest.main()
