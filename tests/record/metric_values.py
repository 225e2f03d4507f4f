"""Records values of sacrebleu, scikit-learn, rouge-score, numpy and the reference harness on random inputs.

    python tests/record/metric_values.py --seed 7 --cases 500 > cases.jsonl

The tests of `lmeval-metrics` use them. Each line is one case: its kind, its input and the values. A failure is
recorded as `{"error": …}`; numbers that JSON cannot represent are strings.
"""

import argparse
import collections
import json
import math
import random
import re
import string
import sys
import warnings

import numpy as np
import sacrebleu
from lm_eval.api import metrics as reference
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer
from sklearn.metrics import f1_score, matthews_corrcoef

warnings.simplefilter("ignore")

WORDS = [
    "the", "cat", "sat", "on", "mat", "a", "an", "running", "relational", "happily", "U.S.", "$9", "1,000.5", "3-4", "x-y",
    "don't", "naïve", "İstanbul", "日本", "«x»", "—", "!", "?!", "(hi)", "&amp;", "&lt;b&gt;", "<skipped>", "-\n", "\n", "\t", ".", ",",
    "e.g.", "...", "ß", "ẞ", "\u00a0", "\u2028", "\x1c", "é", "e\u0301", "😀", "_", "{}", "''", "The", "THE", "Ünïcode", "٣", "dies",
    "&quot;q&quot;", "a/b", "5.", ".5", "5,", ",5", "5-", "-5", "skies", "controlling", "generalizations", "oscillators", "\0",
]
SUFFIXES = [
    "", "s", "es", "ies", "sses", "ed", "eed", "ied", "ing", "at", "bl", "iz", "y", "ational", "tional", "enci", "anci", "izer", "abli",
    "bli", "alli", "entli", "eli", "ousli", "ization", "ation", "ator", "alism", "iveness", "fulness", "ousness", "aliti", "iviti",
    "biliti", "fulli", "logi", "icate", "ative", "alize", "iciti", "ical", "ful", "ness", "al", "ance", "ence", "er", "ic", "able", "ible",
    "ant", "ement", "ment", "ent", "ion", "sion", "tion", "ou", "ism", "ate", "iti", "ous", "ive", "ize", "e", "ll", "lly", "ally",
]
STEMMER = PorterStemmer()
SCORERS = {
    stemmer: rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], use_stemmer=stemmer) for stemmer in (False, True)
}


def attempt(function):
    try:
        return plain(function())
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"}


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    value = float(value)
    return value if math.isfinite(value) else str(value)


def sentence(rng, length):
    vocabulary = rng.sample(WORDS, rng.randint(3, len(WORDS)))
    return rng.choice(["", " "]) + rng.choice(["", " ", " ", " ", "  "]).join(rng.choices(vocabulary, k=rng.randint(0, length)))


def edited(rng, text):
    words = text.split(" ")
    for _ in range(rng.randint(0, 4)):
        if not words:
            break
        start = rng.randrange(len(words))
        kind = rng.randrange(4)
        if kind == 0:
            words[start] = rng.choice(WORDS)
        elif kind == 1:
            del words[start]
        elif kind == 2:
            words.insert(start, rng.choice(WORDS))
        else:
            end = min(len(words), start + rng.randint(1, 6))
            run = words[start:end]
            del words[start:end]
            place = rng.randint(0, len(words))
            words[place:place] = run
    return " ".join(words)


def texts(rng):
    length = rng.choice([4, 12, 40, 90])
    count = rng.choice([1, 1, 1, 2, 3])
    references, predictions = [], []
    for _ in range(rng.randint(1, 3)):
        first = sentence(rng, length)
        references.append([first] + [edited(rng, first) if rng.random() < 0.7 else sentence(rng, length) for _ in range(count - 1)])
        predictions.append(edited(rng, first) if rng.random() < 0.8 else sentence(rng, length))
    streams = list(zip(*references))
    return {
        "references": references,
        "predictions": predictions,
        "bleu": attempt(lambda: sacrebleu.corpus_bleu(predictions, streams).score),
        "chrf": attempt(lambda: sacrebleu.corpus_chrf(predictions, streams).score),
        "chrf++": attempt(lambda: sacrebleu.corpus_chrf(predictions, streams, word_order=2).score),
        "ter": attempt(lambda: sacrebleu.corpus_ter(predictions, streams).score),
    }


def edits(rng):
    """Return short words from a small alphabet, which causes many shifts."""
    alphabet = string.ascii_lowercase[: rng.randint(1, 8)]
    words = lambda: " ".join(rng.choices(alphabet, k=rng.choice([3, 8, 20, 60, 120])))  # noqa: E731
    predictions, references = [words()], [[words()]]
    if rng.random() < 0.5:
        references = [[edited(rng, predictions[0])]]
    return {
        "references": references,
        "predictions": predictions,
        "ter": attempt(lambda: sacrebleu.corpus_ter(predictions, list(zip(*references))).score),
    }


def moves(rng):
    """Return fifty pairs of word lists, often equal up to moved runs, and the edits between them."""
    pairs = []
    for _ in range(50):
        alphabet = [*string.ascii_lowercase, *string.digits][: rng.randint(1, 36)]
        longest = rng.choice([4, 8, 8, 16, 16, 30]) if rng.random() < 0.995 else 120
        words = rng.choices(alphabet, k=rng.randint(0, longest))
        reference = rng.choices(alphabet, k=rng.randint(0, longest))
        if rng.random() < 0.7:
            reference = list(words)
            for _ in range(rng.randint(0, 4)):
                start = rng.randint(0, len(reference))
                run = [reference.pop(start) for _ in range(rng.randint(1, 14)) if start < len(reference)]
                place = rng.randint(0, len(reference))
                reference[place:place] = run if rng.random() < 0.9 else run[1:]
                if reference and rng.random() < 0.3:
                    reference[rng.randrange(len(reference))] = rng.choice(alphabet)
        words, reference = " ".join(words), " ".join(reference)
        pairs.append([words, reference, plain(sacrebleu.corpus_ter([words], [[reference]]).score)])
    return {"pairs": pairs}


def rouge(rng):
    targets = [sentence(rng, 30) for _ in range(rng.randint(1, 3))]
    prediction = edited(rng, targets[0])
    out = {}
    for stemmer, scorer in SCORERS.items():
        scores = scorer.score_multi(targets, prediction)
        out[str(stemmer).lower()] = {kind: plain(list(score)) for kind, score in scores.items()}
    return {"targets": targets, "prediction": prediction, "scores": out}


def stems(rng):
    letters = "aeiouybcdlstxwz"
    words = ["".join(rng.choices(letters, k=rng.randint(1, 6))) + rng.choice(SUFFIXES) + rng.choice(SUFFIXES) for _ in range(40)]
    words = [word for word in words if len(word) > 3]
    return {"words": words, "stems": [STEMMER.stem(word) for word in words]}


def labels(rng):
    count = rng.choice([1, 2, 3, 10, 40, 300])
    names = rng.choice([[0, 1], [0, 1], [1], [0], [1, 2], [2, 3], [0, 1, 2], list(range(12)), list(range(200)), [-1, 1], ["a", "b"], ["no", "yes", "x"]])
    golds = rng.choices(names, k=count)
    predictions = [gold if rng.random() < 0.4 else rng.choice(names) for gold in golds]
    out = {"golds": golds, "predictions": predictions, "mcc": attempt(lambda: matthews_corrcoef(golds, predictions))}
    for average in ("binary", "micro", "macro", "weighted"):
        out[average] = attempt(lambda: f1_score(golds, predictions, average=average))
    return out


def numbers(rng):
    count = rng.choice([1, 2, 5, 8, 9, 17, 100, 129, 300, 1025])
    values = [rng.choice([rng.gauss(0, 3), round(rng.uniform(-5, 5), 2)]) for _ in range(count)]
    if rng.random() < 0.3:
        values = [float(rng.randint(0, 1)) for _ in values]
    holes = [math.nan if rng.random() < 0.2 else value for value in values]
    pairs = [(value, rng.randint(1, 50)) for value in values]
    target = rng.randrange(count)
    array = np.array(values)
    powers = np.exp(array - array.max())
    one_hot = np.zeros(count)
    one_hot[target] = 1
    few = values[:40]
    return {
        "values": values,
        "holes": plain(holes),
        "pairs": pairs,
        "target": target,
        "mean": attempt(lambda: reference.mean(values)),
        "median": attempt(lambda: reference.median(values)),
        "perplexity": attempt(lambda: reference.perplexity(values)),
        "nanmean": attempt(lambda: reference.nanmean(holes)),
        "weighted_perplexity": attempt(lambda: reference.weighted_perplexity(pairs)),
        "bits_per_byte": attempt(lambda: reference.bits_per_byte(pairs)),
        "stderr": attempt(lambda: reference.mean_stderr(values)),
        "brier_score": plain(np.sum((powers / powers.sum() - one_hot) ** 2)),
        "choice_logprob": plain(array[target] - np.logaddexp.reduce(array)),
        "argmax": int(np.argmax(np.array(holes))),
        "median@100": attempt(lambda: bootstrap(reference.median, few)),
        "perplexity@100": attempt(lambda: bootstrap(reference.perplexity, few)),
    }


def bootstrap(function, items):
    """Return the standard error of the reference with fewer draws than a chunk has."""
    return reference.sample_stddev(reference._bootstrap_internal(function, 100)((0, items)))


def resamples(rng):
    """Return the bootstrapped standard error of corpus metrics."""
    count = rng.randint(2, 8)
    pairs = [(text, edited(rng, text)) for text in (sentence(rng, 15) for _ in range(count))]
    binary = [(rng.randint(0, 1), rng.randint(0, 1)) for _ in range(rng.randint(2, 30))]
    out = {"pairs": pairs, "labels": binary}
    for name in ("bleu", "chrf", "chrf++", "ter"):
        function = {"chrf++": reference.chrfpp}.get(name) or getattr(reference, name)
        out[name] = attempt(lambda: bootstrap(function, pairs))
    out["f1"] = attempt(lambda: bootstrap(reference.f1_score, binary))
    out["matthews_corrcoef"] = attempt(lambda: bootstrap(reference.matthews_corrcoef, binary))
    return out


def exact(rng):
    values = WORDS + ["Paris", "paris.", " Paris", "$1,000", "1000", "42", "42.0", "", "the cat", "A", "İ", "i\u0307"]
    predictions = rng.choices(values, k=rng.randint(1, 4))
    target = rng.choice(predictions) if rng.random() < 0.5 else rng.choice(values)
    target = rng.choice([target, target.upper(), target + "!", target + "7", "the " + target])
    kwargs = {}
    if rng.random() < 0.4:
        kwargs["regexes_to_ignore"] = rng.sample([",", r"\$", "(?i)the ", r"\s+", r"\.$", "[0-9]"], rng.randint(1, 3))
    for name in ("ignore_case", "ignore_punctuation", "ignore_numbers"):
        if rng.random() < 0.4:
            kwargs[name] = True
    call = lambda: [  # noqa: E731
        int(reference.exact_match_hf_evaluate([prediction], [target], **kwargs)["exact_match"]) for prediction in predictions
    ]
    return {"reference": target, "predictions": predictions, "kwargs": kwargs, "values": attempt(call)}


def squad(rng):
    targets = [sentence(rng, 6) for _ in range(rng.randint(1, 3))]
    prediction = edited(rng, targets[0])

    def normal(text):
        text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def f1(target):
        left, right = normal(prediction).split(), normal(target).split()
        same = sum((collections.Counter(left) & collections.Counter(right)).values())
        if same == 0:
            return 0
        precision, recall = same / len(left), same / len(right)
        return (2 * precision * recall) / (precision + recall)

    return {
        "targets": targets,
        "prediction": prediction,
        "exact": max(int(normal(prediction) == normal(target)) for target in targets),
        "f1": plain(max(f1(target) for target in targets)),
    }


# `moves` runs only on request: one case has many pairs.
KINDS = [texts, edits, rouge, stems, labels, numbers, resamples, exact, squad]
KIND_NAMES = [kind.__name__ for kind in KINDS]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--kinds", nargs="*")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    kinds = [kind for kind in [*KINDS, moves] if kind.__name__ in (arguments.kinds or KIND_NAMES)]
    for _ in range(arguments.cases):
        kind = rng.choice(kinds)
        sys.stdout.write(json.dumps({"kind": kind.__name__, **kind(rng)}) + "\n")


if __name__ == "__main__":
    main()
