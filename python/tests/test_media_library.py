"""All tasks of the public library that have images or sounds, on rows of the same schema."""

from __future__ import annotations

import re
import shutil
import sys
import unittest
from pathlib import Path

from tests import media
from tests.binary import BinaryTestCase

FOLDERS = ("chartqa", "common_voice", "mmmu", "pisa")


@unittest.skipUnless(media.is_installed(), "Pillow or `datasets` is not installed")
@unittest.skipUnless(media.LIBRARY, "`LM_EVAL_TEST_LIBRARY` is not set")
class Library(BinaryTestCase):
    """Tasks are valid, have prompts, and run."""

    def setUp(self) -> None:
        """Copy the tasks and write their datasets."""
        super().setUp()
        for name in FOLDERS:
            shutil.copytree(Path(str(media.LIBRARY)) / name, self.folder / "tasks" / name)
        media.write_charts(self.folder / "HuggingFaceM4/ChartQA/data/test-0.parquet", 3)
        self.write_mmmu()
        self.write_pisa()
        self.write_voices()

    def describe(self, dataset: str, configs: list[tuple[str, list[str]]]) -> None:
        """Write the README of a dataset: its configurations, each with splits in a folder of its name."""
        lines = ["---", "configs:"]
        for config, splits in configs:
            lines += [f"- config_name: {config}", "  data_files:"]
            for split in splits:
                lines += [f"  - split: {split}", f"    path: {config}/{split}.parquet"]
        self.write(f"{dataset}/README.md", "\n".join([*lines, "---", ""]))

    def write_mmmu(self) -> None:
        """Write one row for each subject."""
        text = "".join(path.read_text() for path in (self.folder / "tasks/mmmu").glob("mmmu_*.yaml"))
        subjects = re.findall(r"dataset_name: (\w+)", text)
        self.assertEqual(len(subjects), 30)
        self.describe("MMMU/MMMU", [(subject, ["validation"]) for subject in subjects])
        first = self.folder / f"MMMU/MMMU/{subjects[0]}/validation.parquet"
        media.write_exams(first, 2)
        for subject in subjects[1:]:
            (self.folder / "MMMU/MMMU" / subject).mkdir()
            shutil.copy(first, self.folder / f"MMMU/MMMU/{subject}/validation.parquet")

    def write_pisa(self) -> None:
        """Write two rows for each language, one of them without an image."""
        import datasets

        rows = [
            {"question": "Q", "choices": "['a', 'b', 'c', 'd']", "answer": 1, "image": image}
            for image in (media.cell(media.encoded(1, 1)), None)
        ]
        languages = ["ch", "de", "en", "es", "fr", "it"]
        self.describe("PisaBench/pisa-bench", [("default", languages)])
        for language in languages:
            path = self.folder / f"PisaBench/pisa-bench/default/{language}.parquet"
            media.write_parquet(path, rows, image=datasets.Image(), answer=datasets.Value("int64"))

    def write_voices(self) -> None:
        """Write two sounds."""
        import datasets

        rows = [{"audio": {"bytes": media.tone(n), "path": f"{n}.wav"}, "transcript": f"word {n}"} for n in range(2)]
        self.describe("fixie-ai/endpointing-audio", [("common_voice_17_0-en", ["train", "test"])])
        for split in ("train", "test"):
            path = self.folder / f"fixie-ai/endpointing-audio/common_voice_17_0-en/{split}.parquet"
            media.write_parquet(path, rows, audio=datasets.Audio(sampling_rate=16000))

    def succeed(self, *arguments: str) -> str:
        """Run the binary with the Python that has Pillow; return what it prints."""
        common = ["--include_path", "tasks", "--library", "none", "--python", sys.executable]
        done = self.run_binary(*arguments, *common, HF_HUB_OFFLINE="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_tasks_run(self) -> None:
        """One run with all of them, and the prompts of each kind."""
        tasks = "chartqa,chartqa_llama,chartqa_llama_90,common_voice_en,mmmu_val,pisa"
        table = self.succeed("run", "--model", "dummy", "--tasks", tasks, "--log_samples", "--output_path", "out")
        self.assertIn("common_voice_en", table)
        samples = list((self.folder / "out").rglob("samples_*.jsonl"))
        self.assertEqual(len(samples), 3 + 1 + 30 + 6)
        self.assertEqual(len(list((self.folder / "out").rglob("media_*.jsonl"))), 3 + 1 + 30 + 6)
        names = ["chartqa", "mmmu_val_math", "pisa_en_llm_judged", "common_voice_en"]
        shown = self.succeed("preview", *names, "--limit", "2")
        self.assertEqual(shown.count("--- visual {"), 2 + 5 + 1)
        self.assertEqual(shown.count("--- audio {"), 2)
        self.succeed("validate", "--tasks", f"{tasks},pisa_llm_judged")


if __name__ == "__main__":
    unittest.main()
