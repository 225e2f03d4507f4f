"""Functions that return values of every type the reference accepts."""

import numpy as np


def bools(doc, results):
    right = results[0].strip().lower() == doc["answer"].lower()
    return {
        "truth": right,
        "numpy_truth": np.bool_(right),
        "numpy_float": np.float64(len(results[0])) / 3,
        "numpy_int": np.int64(len(results[0])),
    }


def lists(doc, results):
    return {"marks": [float(word in doc["q"]) for word in results[0].split()] or [0.0], "pairs": (doc["gold"], len(results[0]) % 2)}


def flat_mean(values):
    flat = [one for value in values for one in value]
    return sum(flat) / len(flat)


def agreement(values):
    gold, guessed = zip(*values)
    return {"same": 0.5}["same"] + sum(g == p for g, p in zip(gold, guessed))


def some(doc, results):
    scores = {"always": len(results[0])}
    if doc["gold"]:
        scores["sometimes"] = doc["number"]
    return scores


def nones(doc, results):
    return {"maybe": None if doc["gold"] else 1.0}


def count_nones(values):
    return sum(value is None for value in values)


def numpy_scores(doc, results):
    return {"vector": np.array([1.0, len(results[0])]), "dictionary": {"a": 1, "b": len(results[0])}}


def vector_mean(values):
    return np.mean(np.stack(values), axis=0)[1]


def key_sum(values):
    return np.float64(sum(value["b"] for value in values))


def wrapped(doc, results):
    likelihoods, greedy = zip(*results)
    return {"best": int(np.argmax(likelihoods)) == doc["gold"], "margin": np.max(likelihoods) - np.min(likelihoods), "greedy": any(greedy)}


def upper(resps, docs):
    return [[answer.upper() for answer in answers] for answers in resps]


def with_document(resps, docs):
    return [doc["answer"] if "a" in answers[0] else answers[0] for answers, doc in zip(resps, docs)]


def lazy(resps, docs):
    for answers in resps:
        yield answers[:1]


def numbered(resps, docs):
    return [[len(answer) for answer in answers] for answers in resps]


def target_truth(doc):
    return bool(doc["gold"])


def target_float(doc):
    return float(doc["gold"])


def target_numpy(doc):
    return np.int64(doc["gold"])


def target_none(doc):
    return None if doc["gold"] else "yes"


def target_list(doc):
    return [doc["gold"], 0]


def target_tuple(doc):
    return (doc["answer"], "other")


def target_mixed_text_first(doc):
    return [doc["answer"], "a"] if doc["number"] % 2 else doc["answer"]


def target_mixed_list_first(doc):
    return doc["answer"] if doc["number"] % 2 else [doc["answer"], "a"]


def target_dict(doc):
    return {doc["answer"]: 1, "number": doc["number"]}


def target_set(doc):
    return {doc["answer"]}


def target_one_list(doc):
    return [doc["answer"]]


def choice_tuple(doc):
    return ("no", "yes", doc["answer"])


def choice_numbers(doc):
    return [0, 1]


def choice_array(doc):
    return np.array(["no", "yes"])


def text_index(doc):
    return int(doc["gold"])


def text_numpy(doc):
    return np.int64(doc["gold"])


def close(references, predictions, **kwargs):
    return abs(len(references[0]) - len(predictions[0]))


def lengths(references, predictions, **kwargs):
    return len(references) + len(predictions) * 10 + len(references[0]) * 100


def truth(references, predictions, **kwargs):
    return references[0] == predictions[0]


def as_dict(references, predictions, **kwargs):
    return {"length": float(len(predictions[0])), "same": references[0] == predictions[0]}


def found_in(references, predictions, **kwargs):
    return {"found_in": float(references[0] == "yes"), "other": 1.0}


def pair_metric(items):
    return items


def spread(values):
    return max(values) - min(values)


def numpy_spread(values):
    return np.max(values) - np.min(values)


def truth_aggregation(values):
    return any(values)


def process_docs(dataset):
    return dataset.filter(lambda doc: doc["number"] != 2).map(lambda doc: {"number": doc["number"] + 0.5, "flag": doc["gold"] == 1})


def sorted_target(doc):
    doc["answers"].sort()
    return doc["answers"].index(max(doc["answers"]))
