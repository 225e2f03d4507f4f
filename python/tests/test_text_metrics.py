"""BLEU, chrF and TER, which the engine computes, agree with sacrebleu, wherever they are called."""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import string
import unittest
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api import metrics
from lm_eval.api.registry import get_aggregation

from tests import engine
from tests.binary import BinaryTestCase

SEED = 15
CORPORA = 40
PAIRS = 40

PIECES = [*"0159aZ\u00e9\u0663\u65e5 \t\n.,-'", *".,-.,-5", *string.punctuation, "&amp;", "&lt;", "<skipped>", "-\n"]
"""Characters that are special to the tokenizer of BLEU."""


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


def _words(rng: random.Random) -> tuple[str, str]:
    """Return a prediction and a reference: often the same words with runs moved and words replaced."""
    alphabet = [*string.ascii_lowercase, *string.digits][: rng.randint(1, 36)]
    longest = rng.choice([3, 8, 14, 30]) if rng.random() < 0.995 else 120
    words = rng.choices(alphabet, k=rng.randint(0, longest))
    if rng.random() < 0.3:
        return " ".join(words), " ".join(rng.choices(alphabet, k=rng.randint(0, longest)))
    reference = list(words)
    for _ in range(rng.randint(0, 3)):
        start = rng.randint(0, len(reference))
        run = reference[start : start + rng.randint(1, 14)]
        del reference[start : start + len(run)]
        index = rng.randint(0, len(reference))
        reference[index:index] = run if rng.random() < 0.8 else [rng.choice(alphabet), *run[1:]]
    return " ".join(words), " ".join(reference)


def _pieces(rng: random.Random) -> tuple[str, str]:
    prediction = rng.choices(PIECES, k=rng.randint(0, 14))
    return "".join(prediction), "".join(rng.choice([piece, piece, rng.choice(PIECES)]) for piece in prediction)


@unittest.skipUnless(importlib.util.find_spec("sacrebleu"), "sacrebleu is not installed")
class AgainstSacrebleu(unittest.TestCase):
    """Scores compared with the original."""

    def test_random_corpora(self) -> None:
        """Every score of every corpus, to the last digit."""
        import sacrebleu

        rng = random.Random(SEED)
        for number in range(CORPORA):
            pairs = [(_pieces if number % 2 else _words)(rng) for _ in range(PAIRS)]
            predictions, references = map(list, zip(*pairs))
            given = (predictions, [references])
            for name, expected in (
                ("bleu", sacrebleu.corpus_bleu(*given)),
                ("chrf", sacrebleu.corpus_chrf(*given)),
                ("chrf++", sacrebleu.corpus_chrf(*given, word_order=2)),
                ("ter", sacrebleu.corpus_ter(*given)),
            ):
                aggregation = get_aggregation(name)
                assert aggregation is not None
                found = aggregation(list(zip(references, predictions)))
                self.assertEqual(found, expected.score, (number, name))


class Arguments(unittest.TestCase):
    """The forms of documents, and wrong ones."""

    def test_forms_of_documents(self) -> None:
        """Strings and lists may be mixed."""
        for document in (
            ("the old black cat", "the old cat"),
            (["the old black cat"], ["the old cat"]),
            ([["the old black cat"]], ["the old cat"]),
            (("the old black cat", None), "the old cat"),
        ):
            with self.subTest(document=document):
                self.assertEqual(metrics.ter([document, document]), 25)
        self.assertEqual(metrics.ter([("a b c d", "a b c d"), (["a b c d"], ["a b d"])]), 12.5)

    def test_wrong_documents(self) -> None:
        """The exception says what is wrong, also if the engine finds it."""
        wrong: tuple[tuple[list[Any], type[Exception], str], ...] = (
            ([], ValueError, "no values"),
            ([("a", ["a", "b"])], ValueError, "one prediction, not 2"),
            ([("a", [3])], TypeError, "prediction must be a string, not 3"),
            ([([3], "a")], TypeError, "reference must be a string, not 3"),
            ([([None], "a")], ValueError, "Document 0 has no reference"),
            ([(["a", "b"], "a"), (["a"], "a")], ValueError, "Document 1 has 1 references"),
        )
        for items, kind, message in wrong:
            for function in (metrics.bleu, metrics.chrf, metrics.chrfpp, metrics.ter):
                with self.subTest(items=items), self.assertRaisesRegex(kind, message):
                    function(items)

    def test_standard_error(self) -> None:
        """The engine draws the resamples of `random.Random`, unless a subclass changes the score."""
        rng = random.Random(SEED)
        items = [(reference, prediction) for prediction, reference in (_words(rng) for _ in range(9))]

        class Halved(metrics.Ter):
            def aggregation(self, items: Any) -> float:
                """Return half the score."""
                return super().aggregation(items) / 2

        drawn = metrics.bootstrap_stderr(lambda resample: metrics.ter(resample), items, 20)
        self.assertEqual(metrics.bootstrap_stderr(metrics.ter, items, 20), drawn)
        self.assertEqual(metrics.bootstrap_stderr(metrics.Ter().aggregation, items, 20), drawn)
        self.assertAlmostEqual(metrics.bootstrap_stderr(Halved().aggregation, items, 20), drawn / 2)


CODE = """
import os
from typing import Any
from lm_eval.api import metrics

def values(doc, results):
    return {"mine": (doc["a"], "a b c d e")}
"""

TASK = """
task: corpus
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
process_results: !function utils.values
metric_list: [{metric: mine, aggregation: !function utils._score, higher_is_better: true}]
"""


def _score(items: Any) -> float:
    """Compute a score while an engine waits for this function, and in a child of this process."""
    here = metrics.bleu(items)
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        os.write(writable, repr(metrics.bleu(items)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writable)
    with open(readable) as file:
        assert float(file.read()) == here
    return here


class DuringARun(unittest.TestCase):
    """Functions that the engine calls may call it back."""

    def test_aggregation_of_a_task(self) -> None:
        """A task's own aggregation computes BLEU in this process."""
        rows = [{"q": "a b c d", "a": "a b c d e"}, {"q": "x", "a": "lol"}]
        task = {
            "task": "corpus",
            "custom_dataset": lambda **_: {"test": rows},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{q}}",
            "doc_to_target": "{{a}}",
            "process_results": lambda doc, results: {"mine": (doc["a"], "a b c d e")},
            "metric_list": [{"metric": "mine", "aggregation": _score, "higher_is_better": True}],
        }
        results = simple_evaluate(model="dummy", tasks=[task], bootstrap_iters=0, verbosity="ERROR")
        expected = metrics.bleu([(row["a"], "a b c d e") for row in rows])
        self.assertEqual(results["results"]["corpus"]["mine,none"], expected)


class InAWorker(BinaryTestCase):
    """Functions of task files."""

    def test_aggregation_of_a_task(self) -> None:
        """A worker asks its engine, and a child of the worker another one."""
        rows = [{"q": "x", "a": "a b c d e"}, {"q": "y", "a": "lol"}]
        self.write_lines("tasks/rows.jsonl", rows)
        self.write("tasks/utils.py", f"{CODE}\n{inspect.getsource(_score)}")
        self.write("tasks/corpus.yaml", TASK)
        expected = metrics.bleu([(row["a"], "a b c d e") for row in rows])
        scores = self.scores("corpus", "--model", "dummy", "--bootstrap_iters", "0")
        self.assertEqual(scores["mine,none"], expected)


if __name__ == "__main__":
    unittest.main()
