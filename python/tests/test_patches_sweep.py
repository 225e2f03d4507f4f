"""Whatever 0.4.13 calls in an evaluation is called here too once a script has replaced it, or it is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests import engine
from tests.wild import COMMON, PLAIN, Script

WRAP = '''
import functools, importlib, inspect, json, os, types
import lm_eval, lm_eval.evaluator, lm_eval.evaluator_utils, lm_eval.tasks, lm_eval.utils, lm_eval.loggers
called = set()

def counted(function, key):
    @functools.wraps(function)
    def call(*args, **kwargs):
        called.add(key)
        return function(*args, **kwargs)
    return call

def replace(key):
    """Count the calls of a name; a name that does not exist here becomes a new function."""
    module, owner, name = key.split(":")
    target = importlib.import_module(module)
    target = getattr(target, owner) if owner else target
    value = inspect.getattr_static(target, name, None)
    if isinstance(value, (classmethod, staticmethod)):
        setattr(target, name, type(value)(counted(value.__func__, key)))
    elif isinstance(value, property):
        setattr(target, name, property(counted(value.fget, key), value.fset))
    else:
        setattr(target, name, counted(value or (lambda *_, **__: None), key))

def evaluate():
    manager = lm_eval.tasks.TaskManager(include_path="tasks")
    lm_eval.evaluator.simple_evaluate(
        Base(), tasks=["all", "rolling"], num_fewshot=1, task_manager=manager, bootstrap_iters=10, limit=3)
'''

RECORD = '''
import sys
kinds = (types.FunctionType, classmethod, staticmethod, property)
for module, content in sorted(sys.modules.items()):
    if module.startswith("lm_eval.") and not module.startswith("lm_eval.models"):
        for name, value in list(vars(content).items()):
            if isinstance(value, types.FunctionType) and value.__module__.startswith("lm_eval") and name[:2] != "__":
                replace(f"{module}::{name}")
            elif isinstance(value, type) and value.__module__ == module:
                for method, item in list(vars(value).items()):
                    if isinstance(item, kinds) and (method[:2] != "__" or method in ("__init__", "__post_init__")):
                        replace(f"{module}:{name}:{method}")
evaluate()
print("CALLED", *sorted(called))
'''

TRY = '''
for key in json.load(open("names.json")):
    child = os.fork()
    if child == 0:
        outcome = "ignored"
        try:
            replace(key)
            evaluate()
            outcome = "called" if key in called else outcome
        except NotImplementedError:
            outcome = "refused"
        except ImportError as error:
            outcome = "absent" if "There is no" in str(error) or "No module" in str(error) else repr(error)
        except BaseException as error:
            outcome = repr(error)
        print("OUTCOME", outcome.replace(" ", "_"), key, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
'''

CONDITIONAL = {
    "lm_eval.api.model:LM:rank": "one process has rank 0",
    "lm_eval.api.task:ConfigurableTask:has_training_docs": "the task names the split of its examples",
    "lm_eval.api.task:ConfigurableTask:has_validation_docs": "the task has a test split",
}
"""Names that are called only where they can make a difference."""


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Sweep(Script):
    """Every name that the reference calls, one by one."""

    def test_every_call_of_the_reference(self) -> None:
        """Each of them acts, is refused, or cannot be imported."""
        shots = PLAIN.replace("test_split: test", "test_split: test\nfewshot_split: test")
        self.write("tasks/wild_sums.yaml", shots)
        rolling = PLAIN.replace("wild_sums", "rolling").replace("generate_until", "loglikelihood_rolling")
        rolling = rolling.replace("exact_match", "word_perplexity").replace('"{{q}} ="', '""')
        self.write("tasks/rolling.yaml", "".join(line for line in rolling.splitlines(True) if "generation_" not in line))
        self.write("tasks/all.yaml", "group: all\ntask: [wild_sums]\naggregate_metric_list: [{metric: exact_match}]\n")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["HF_DATASETS_CACHE"] = str(self.folder / "cache")
        done = subprocess.run(
            [sys.executable, str(self.write("reference.py", COMMON + WRAP + RECORD))],
            env=environment, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        names = next(line for line in done.stdout.splitlines() if line.startswith("CALLED ")).split()[1:]
        self.assertGreater(len(names), 100)
        self.write("names.json", json.dumps(names))
        # Only by the rules of 0.4 does a task without filters have `take_first`.
        printed = self.run_script(WRAP + TRY, LM_EVAL_COMPAT="0.4")
        lines = [line.split() for line in printed.splitlines() if line.startswith("OUTCOME ")]
        outcomes = {key: outcome for _, outcome, key in lines}
        self.assertEqual(set(outcomes), set(names))
        wrong = {key: outcome for key, outcome in outcomes.items() if outcome not in ("called", "refused", "absent")}
        self.assertEqual({key: outcome for key, outcome in wrong.items() if key not in CONDITIONAL}, {})
