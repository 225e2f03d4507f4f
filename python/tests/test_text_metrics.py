"""TER and the tokenizer of BLEU agree with sacrebleu on random strings."""

from __future__ import annotations

import importlib.util
import random
import string
import unittest

from lm_eval.api.metrics._text._bleu import tokenize_13a
from lm_eval.api.metrics._text._ter import corpus_ter, count_edits

SEED = 15
PAIRS = 1500
SEGMENTS = 3000


def _lists(rng: random.Random) -> tuple[list[str], list[str]]:
    """Return words and a reference: often the same words with runs moved and words replaced."""
    alphabet = [*string.ascii_lowercase, *string.digits][: rng.randint(1, 36)]
    longest = rng.choice([3, 8, 14, 30]) if rng.random() < 0.995 else 120
    words = rng.choices(alphabet, k=rng.randint(0, longest))
    if rng.random() < 0.3:
        return words, rng.choices(alphabet, k=rng.randint(0, longest))
    reference = list(words)
    for _ in range(rng.randint(0, 3)):
        start = rng.randint(0, len(reference))
        run = reference[start : start + rng.randint(1, 14)]
        del reference[start : start + len(run)]
        index = rng.randint(0, len(reference))
        reference[index:index] = run if rng.random() < 0.8 else [rng.choice(alphabet), *run[1:]]
    return words, reference


@unittest.skipUnless(importlib.util.find_spec("sacrebleu"), "sacrebleu is not installed")
class AgainstSacrebleu(unittest.TestCase):
    """Our implementations compared with the original."""

    def test_edits_of_random_lists(self) -> None:
        """Single pairs, with the number of edits."""
        import sacrebleu

        rng = random.Random(SEED)
        for _ in range(PAIRS):
            words, reference = _lists(rng)
            expected = sacrebleu.corpus_ter([" ".join(words)], [[" ".join(reference)]]).score
            with self.subTest(words=words, reference=reference):
                self.assertEqual(corpus_ter([(" ".join(words), [" ".join(reference)])]), expected)

    def test_tokens_of_random_segments(self) -> None:
        """Sequences of characters that are special to the tokenizer."""
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

        rng = random.Random(SEED)
        tokenizer = Tokenizer13a()
        pieces = [*"0159aZ\u00e9\u0663\u65e5 \t\n.,-'", *".,-.,-5", *string.punctuation, "&amp;", "&lt;", "<skipped>", "-\n"]
        for _ in range(SEGMENTS):
            text = "".join(rng.choices(pieces, k=rng.randint(0, 14)))
            with self.subTest(text=text):
                self.assertEqual(" ".join(tokenize_13a(text)), tokenizer(text))


class Edits(unittest.TestCase):
    """Values that follow from the rules."""

    def test_a_move_is_one_edit(self) -> None:
        """A moved run is one edit, whatever its length."""
        for words, reference, edits in (
            ("d e f a b c", "a b c d e f", 1),
            ("a x c", "a b c", 1),
            ("", "a b", 2),
            ("a b", "", 2),
            ("b c a", "a b c", 1),
        ):
            with self.subTest(words=words, reference=reference):
                self.assertEqual(count_edits(words.split(), reference.split()), edits)

    def test_word_outside_the_band_is_not_found(self) -> None:
        """Rows have 25 columns on each side of the diagonal, or more where the reference is much longer."""
        numbers = [str(number) for number in range(400)]
        self.assertEqual(count_edits(["7"], numbers), 400)
        self.assertEqual(count_edits(numbers, ["7"]), 399)

    def test_period_belongs_to_one_pair(self) -> None:
        """Of two periods before a digit, the second stays with the digit."""
        self.assertEqual(tokenize_13a("..5 5.5 5. 5-5 a-b"), [".", ".5", "5.5", "5", ".", "5", "-", "5", "a-b"])


if __name__ == "__main__":
    unittest.main()
