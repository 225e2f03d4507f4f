"""Vision models of `transformers`: the same answers as under 0.4.13."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests import hflm, media, vision

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import lm_eval
from lm_eval.tasks import TaskManager

if __name__ == "__main__":
    names, folders, options = sys.argv[1].split(","), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    manager = TaskManager(include_path=folders)
    found = lm_eval.simple_evaluate(
        model="hf-multimodal", tasks=names, task_manager=manager, bootstrap_iters=0, device="cpu", **options
    )
    answers = {
        task: [(sample["doc_id"], sample["resps"], sample["arguments"][0][0]) for sample in sorted(samples, key=lambda s: s["doc_id"])]
        for task, samples in found["samples"].items()
    }
    scores = {task: {key: value for key, value in entry.items() if "," in key} for task, entry in found["results"].items()}
    print("RESULT " + json.dumps({"answers": answers, "scores": scores}, sort_keys=True, default=str))
"""

DATA = "dataset_path: parquet\ndataset_kwargs: {data_files: {test: data/charts.parquet}}\ntest_split: test\n"

TASKS = {
    "one": "output_type: generate_until\ndoc_to_image: [image]\ndoc_to_text: '<image>{{query}}'\ndoc_to_target: '{{label[0]}}'\n"
    "generation_kwargs: {until: ['z'], max_gen_toks: 8, temperature: 0.0, do_sample: false}\nmetric_list: [{metric: exact_match}]\n",
    "two": "output_type: generate_until\ndoc_to_image: [image, image]\ndoc_to_text: 'A <image> and <image>: {{query}}'\n"
    "doc_to_target: '{{label[0]}}'\ngeneration_kwargs: {until: [], max_gen_toks: 5}\nmetric_list: [{metric: exact_match}]\n",
}

CHOICE = (
    "output_type: multiple_choice\ndoc_to_image: [image]\ndoc_to_text: '<image>{{query}} '\ndoc_to_choice: [red, blue one]\n"
    "doc_to_target: 0\nmetric_list: [{metric: acc}]\n"
)


def is_ready() -> bool:
    """Whether torch, torchvision and Pillow are installed."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return False
    return media.is_installed()


def setUpModule() -> None:
    """Skip these tests without torch and what reads images."""
    hflm.set_up()
    if not is_ready():
        raise unittest.SkipTest("torchvision or Pillow is not installed")


class Vision(unittest.TestCase):
    """`hf-multimodal` on tiny random checkpoints."""

    def setUp(self) -> None:
        """Write the tasks and their images."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "tasks").mkdir()
        media.write_charts(self.folder / "data/charts.parquet", 6)
        for name, text in {**TASKS, "choice": CHOICE}.items():
            (self.folder / f"tasks/{name}.yaml").write_text(f"task: {name}\n{DATA}{text}", encoding="utf-8")

    def answers(self, names: str, model: str, is_reference: bool, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Evaluate tasks with a checkpoint."""
        given = {"pretrained": model, "dtype": "float32", "convert_img_format": True, **(arguments or {})}
        os.environ["TQDM_DISABLE"] = "1"
        return media.asked(self.folder, names, ["tasks"], is_reference, PROGRAM, model_args=given, **options)

    def compare(self, model: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Check that both give the same answers to the same prompts."""
        names = ",".join(TASKS)
        ours = self.answers(names, model, False, arguments, **options)
        self.assertEqual(ours, self.answers(names, model, True, arguments, **options))
        return ours

    def test_llava(self) -> None:
        """One image and two, in batches; the options of a question are scored after its image."""
        model = vision.write_llava(self.folder / "llava")
        plain = self.compare(model, batch_size=4)
        self.assertGreater(len({json.dumps(answer[1]) for answer in plain["answers"]["one"]}), 1, "the images matter")
        found = self.answers("choice", model, False)
        scores = {json.dumps(answer[1]) for answer in found["answers"]["choice"]}
        self.assertGreater(len(scores), 1, "the images matter")

    def test_qwen(self) -> None:
        """Images of their own size, resized, in chat messages."""
        model = vision.write_qwen(self.folder / "qwen")
        self.compare(model, {"image_width": 30}, apply_chat_template=True)


if __name__ == "__main__":
    unittest.main()
