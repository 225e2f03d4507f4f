"""Builds requests with the installed 0.4 line, from given documents.

Standard input is a JSON list of cases:
  {"path": ... | "name": ... | "config": {...}, "splits": {name: [document]}, "runs": [run]}
A task is given by its YAML file, by its name in the library or by its configuration. A run may have "num_fewshot",
"seed", "limit", "samples", "rank", "world_size", "system_instruction", "chat", "multiturn" and "gen_kwargs". Each
line of standard output is a request
  {"case", "run", "task", "doc_id", "idx", "type", "args", "target", "repeats"}
or, if a run fails, {"case", "run", "error"}.
"""

import json
import logging
import sys

logging.disable(logging.CRITICAL)

from lm_eval.api import task as task_module  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

# Requests do not depend on metrics and filters, some of which need packages or the network.
for name in ("get_metric", "get_aggregation", "get_metric_aggregation", "build_filter_ensemble"):
    setattr(task_module, name, lambda *args, **kwargs: None)
task_module.is_higher_better = lambda name: True
task_module.AGGREGATION_REGISTRY = {"mean": None}
task_module.tqdm = lambda iterable, **kwargs: iterable


class Split(list):
    """A list of documents with column names, like a dataset."""

    @property
    def features(self):
        return {key: None for key in (self[0] if self else {})}


def chat_template(messages, add_generation_prompt=True):
    text = "".join(f"<{m['role']}>{m['content']}</{m['role']}>" for m in messages)
    return text + "<assistant>" if add_generation_prompt else text


def config_of(case):
    if "config" in case:
        return json.loads(json.dumps(case["config"]))
    if "path" in case:
        return load_yaml(case["path"])
    from lm_eval.tasks import TaskManager

    return load_yaml(TaskManager().task_index[case["name"]].yaml_path)


def build(config, splits, run):
    class GivenTask(task_module.ConfigurableTask):
        def download(self, dataset_kwargs=None, **kwargs):
            self.dataset = {name: Split(documents) for name, documents in splits.items()}

    for key in ("tag", "group", "task_list"):
        config.pop(key, None)
    task = GivenTask(config=config)
    if run.get("num_fewshot") is not None:
        if task.get_config("num_fewshot") != 0:
            task.set_config("num_fewshot", run["num_fewshot"])
    elif task.get_config("num_fewshot") is None:
        task.set_config("num_fewshot", 0)
    if run.get("gen_kwargs") is not None:
        task.set_config("generation_kwargs", run["gen_kwargs"], update=True)
    task.set_fewshot_seed(seed=run.get("seed", 1234))
    limit = run.get("limit")
    if limit is not None:
        limit = int(-(-len(task.eval_docs) * limit // 1)) if limit < 1.0 else int(limit)
    task.build_all_requests(
        limit=limit,
        samples=run.get("samples"),
        rank=run.get("rank", 0),
        world_size=run.get("world_size", 1),
        system_instruction=run.get("system_instruction"),
        apply_chat_template=run.get("chat", False),
        fewshot_as_multiturn=run.get("multiturn", False),
        chat_template=chat_template if run.get("chat") else None,
    )
    return task


def main():
    for case_number, case in enumerate(json.load(sys.stdin)):
        for run_number, run in enumerate(case["runs"]):
            place = {"case": case_number, "run": run_number}
            try:
                task = build(config_of(case), case["splits"], run)
                lines = [
                    json.dumps(
                        place
                        | {
                            "task": instance.task_name,
                            "doc_id": instance.doc_id,
                            "idx": instance.idx,
                            "type": instance.request_type,
                            "args": instance.args,
                            "target": task.doc_to_target(instance.doc),
                            "repeats": instance.repeats,
                        }
                    )
                    for instance in task.instances
                ]
            except Exception as error:  # noqa: BLE001
                lines = [json.dumps(place | {"error": f"{type(error).__name__}: {error}"[:300]})]
            print("\n".join(lines))


if __name__ == "__main__":
    main()
