"""Audio models of `transformers`: the text that the library itself generates."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests import hflm, media, vision

QUESTION = "<audio>What is it?"

TASK = """\
task: heard
dataset_path: audiofolder
dataset_kwargs: {data_dir: sounds}
test_split: train
output_type: generate_until
doc_to_audio: audio
doc_to_text: '<audio>What is it?'
doc_to_target: 'x'
generation_kwargs: {until: [], max_gen_toks: 8, temperature: 0.0, do_sample: false}
metric_list: [{metric: exact_match}]
"""


def setUpModule() -> None:
    """Skip these tests without torch."""
    hflm.set_up()


class Hearing(unittest.TestCase):
    """`hf-audiolm-qwen` on a tiny random Qwen2-Audio. The class of 0.4.13 cannot be imported."""

    def setUp(self) -> None:
        """Write the model and five sounds."""
        import numpy as np

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = vision.write_qwen_audio(self.folder / "model")
        files = [media.tone(number, 0.2) for number in range(5)]
        (self.folder / "sounds").mkdir()
        for number, file in enumerate(files):
            (self.folder / f"sounds/{number}.wav").write_bytes(file)
        self.sounds = [np.frombuffer(file[44:], "<i2").astype(np.float32) / 32768 for file in files]

    def by_hand(self, chat: bool = False) -> list[str]:
        """Return what `transformers` generates for each sound."""
        import torch
        import transformers

        processor = transformers.AutoProcessor.from_pretrained(self.path)
        model = transformers.Qwen2AudioForConditionalGeneration.from_pretrained(self.path, dtype=torch.float32)
        prompt = QUESTION.replace("<audio>", "<|audio_bos|><|AUDIO|><|audio_eos|>")
        if chat:
            content = [{"type": "audio"}, {"type": "text", "text": QUESTION.removeprefix("<audio>")}]
            prompt = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        texts = []
        for sound in self.sounds:
            inputs = processor(text=[prompt], audio=[sound], sampling_rate=16000, return_tensors="pt")
            written = model.generate(**inputs, do_sample=False, max_new_tokens=8)[0, inputs["input_ids"].shape[1] :]
            texts.append(processor.tokenizer.decode(written, skip_special_tokens=True))
        return texts

    def ours(self, batch_size: int, **options: Any) -> list[str]:
        """Return what an evaluation generates for each sound."""
        import lm_eval
        from lm_eval.tasks import TaskManager

        (self.folder / "tasks").mkdir(exist_ok=True)
        task = TASK.replace("data_dir: sounds", f"data_dir: '{self.folder / 'sounds'}'")
        (self.folder / "tasks/heard.yaml").write_text(task, encoding="utf-8")
        found = lm_eval.simple_evaluate(
            model="hf-audiolm-qwen",
            model_args={"pretrained": self.path, "dtype": "float32"},
            tasks=["heard"],
            task_manager=TaskManager(include_path=str(self.folder / "tasks")),
            device="cpu",
            batch_size=batch_size,
            bootstrap_iters=0,
            **options,
        )
        samples = sorted(found["samples"]["heard"], key=lambda sample: sample["doc_id"])
        return [sample["resps"][0][0] for sample in samples]

    def test_text_is_that_of_transformers(self) -> None:
        """Twice, and in batches."""
        expected = self.by_hand()
        self.assertGreater(len(set(expected)), 2, "the sounds matter")
        self.assertEqual(self.ours(1), expected)
        self.assertEqual(self.ours(1), expected)
        self.assertEqual(self.ours(2), expected)

    def test_chat_template(self) -> None:
        """Sounds are parts of the messages."""
        expected = self.by_hand(chat=True)
        self.assertEqual(self.ours(1, apply_chat_template=True), expected)

    def test_number_of_sounds(self) -> None:
        """Later sounds are left out, as are their placeholders' tokens."""
        from lm_eval.models.hf_audiolm import HFAUDIOLMQWEN

        model = HFAUDIOLMQWEN(self.path, max_audios=1, device="cpu", dtype="float32", batch_size=1)
        prompt = model._prompts(["<audio> and <audio>"])[0]
        self.assertEqual(prompt, f"{model.AUDIO_TOKENS} and <audio>")
        with self.assertRaisesRegex(ValueError, "batch_size=auto"):
            HFAUDIOLMQWEN(self.path, device="cpu", batch_size="auto")


if __name__ == "__main__":
    unittest.main()
