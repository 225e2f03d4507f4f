"""Evaluates tasks with the reference harness and a stand-in model; prints requests, answers and results as JSON."""

import hashlib
import json
import logging
import os
import random
import sys

os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["DISABLE_MULTIPROC"] = "1"
os.environ["LMEVAL_DISABLE_MULTIPROC"] = "1"

out = os.dup(1)
os.dup2(2, 1)
logging.disable(logging.CRITICAL)

from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.api.model import LM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from lm_eval.utils import handle_non_serializable  # noqa: E402

WORDS = ["17", "yes", "no", "The answer is 17.", "x", " 17 ", "", "a small cat sat on the mat", "No.", "  "]


class StandIn(LM):
    def __init__(self):
        super().__init__()
        self.log = []

    def number(self, *parts):
        text = json.dumps(parts, default=str)
        return random.Random(int(hashlib.sha256(text.encode()).hexdigest()[:12], 16))

    def keep(self, request, answer):
        self.log.append([request.request_type, json.dumps(list(request.args)), answer])
        return answer

    def loglikelihood(self, requests, **_):
        answers = []
        for request in requests:
            draw = self.number("ll", request.args)
            answers.append(self.keep(request, (-20 * draw.random(), draw.random() < 0.4)))
        return answers

    def loglikelihood_rolling(self, requests, **_):
        return [self.keep(request, -200 * self.number("rolling", request.args).random()) for request in requests]

    def generate_until(self, requests, **_):
        answers = []
        for place, request in enumerate(requests):
            draw = self.number("generate", request.args, place)
            answers.append(self.keep(request, draw.choice(WORDS)))
        return answers


def main():
    folder, runs = sys.argv[1], json.loads(sys.argv[2])
    os.chdir(folder)
    manager = TaskManager(include_path=folder, include_defaults=False)
    answers = []
    for run in runs:
        model = StandIn()
        try:
            results = simple_evaluate(model=model, task_manager=manager, log_samples=True, verbosity="CRITICAL", **run)
        except Exception as error:  # noqa: BLE001
            answers.append({"error": f"{type(error).__name__}: {error}"})
            continue
        results = {key: value for key, value in results.items() if key not in ("configs", "config")}
        answers.append({"requests": model.log, **results})
    with os.fdopen(out, "w") as stream:
        json.dump(answers, stream, default=handle_non_serializable)


main()
