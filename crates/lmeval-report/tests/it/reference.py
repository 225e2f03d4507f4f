"""Answer queries about the reference harness: one JSON object per line, one answer per line."""

import contextlib
import datetime
import io
import json
import logging
import os
import sys
import time

logging.disable(logging.CRITICAL)


def table(question):
    import pytablewriter
    from lm_eval.utils import make_table

    arguments = question["object"], question["column"], question["sort"]
    answer = {"markdown": make_table(*arguments)}
    kept = pytablewriter.MarkdownTableWriter
    # The writer is looked up when the table is built, so it can be replaced by the other one.
    pytablewriter.MarkdownTableWriter = pytablewriter.LatexTableWriter
    try:
        answer["latex"] = make_table(*arguments)
    except Exception as error:
        answer["latex_error"] = repr(error)
    finally:
        pytablewriter.MarkdownTableWriter = kept
    return answer


def stamps(question):
    os.environ["TZ"] = question["zone"]
    time.tzset()
    moments = (datetime.datetime.fromtimestamp(second) for second in question["seconds"])
    return [moment.isoformat().replace(":", "-") for moment in moments]


def name(question):
    from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker
    from lm_eval.utils import sanitize_model_name

    found = GeneralConfigTracker._get_model_name(question["model_args"])
    return {"name": found, "sanitized": sanitize_model_name(found) if found else None}


def read(question):
    """Return what the reference's readers find in a folder."""
    from lm_eval import utils

    folder = question["folder"]
    files = sorted(f"{folder}/{file}" for file in os.listdir(folder))
    [results] = utils.get_results_filenames(files)
    samples = utils.get_sample_results_filenames(files)
    names = [os.path.basename(file) for file in samples]
    with open(results, encoding="utf-8") as file:
        text = file.read()
    loaded = json.loads(text)
    lines = {}
    for path, file in zip(samples, names):
        with open(path, encoding="utf-8") as lines_of:
            lines[utils.get_file_task_name(file)] = [json.loads(line) for line in lines_of]
    same = json.dumps(loaded, indent=2, ensure_ascii=False) == text
    return {
        "object": loaded,
        "same": same,
        "table": utils.make_table(loaded),
        "groups": utils.make_table(loaded, "groups") if "groups" in loaded else None,
        "tasks": [utils.get_file_task_name(file) for file in names],
        "stamps": [utils.get_file_datetime(file) for file in names],
        "latest": os.path.basename(utils.get_latest_filename(names)) if names else None,
        "lines": lines,
    }


def frame(question):
    """Return the columns of a samples file as pandas reads it; null without pandas."""
    import importlib.util

    if importlib.util.find_spec("pandas") is None:
        return None
    import pandas

    return list(pandas.read_json(question["file"], lines=True).columns)


class _Documents(list):
    features: dict = {}


def configs(question):
    """Return the configurations recorded by a run; documents are stand-ins, because only the configuration matters."""
    import datasets
    import lm_eval.api.task as tasks
    from lm_eval.tasks import TaskManager

    def download(self, dataset_kwargs=None, **_):
        if dataset_kwargs:
            dataset_kwargs.pop("trust_remote_code", None)
        row = {"x": "1"}
        self.dataset = {}
        cfg = self.config
        names = {cfg.training_split, cfg.validation_split, cfg.test_split, cfg.fewshot_split, cfg.fewshot_config.split}
        for split in names - {None}:
            self.dataset[split] = datasets.Dataset.from_list([row] * 3)

    def plain(self, *_):
        return "x"

    replaced = {
        "download": download,
        "doc_to_text": plain,
        "doc_to_target": plain,
        "doc_to_choice": lambda self, *_: ["x", "y"],
    }
    kept = {name: getattr(tasks.ConfigurableTask, name) for name in replaced}
    for name, function in replaced.items():
        setattr(tasks.ConfigurableTask, name, function)
    manager = TaskManager(
        include_path=question["include_path"], include_defaults=False, metadata=question.get("metadata")
    )
    answers = {}
    for selector in question["names"]:
        try:
            loaded = manager.load([selector])
        except BaseException as error:
            answers[selector] = {"error": repr(error)}
            continue
        for key, task in loaded["tasks"].items():
            if question.get("gen_kwargs") and task.get_config("output_type") == "generate_until":
                task.set_config(key="generation_kwargs", value=question["gen_kwargs"], update=True)
            if question.get("predict_only"):
                task.override_metric(metric_name="bypass")
            if question.get("num_fewshot") is not None:
                if task.get_config("num_fewshot") != 0:
                    task.set_config(key="num_fewshot", value=question["num_fewshot"])
            elif task.get_config("num_fewshot") is None:
                task.set_config(key="num_fewshot", value=0)
            answers[key] = task.dump_config()
    for name, function in kept.items():
        setattr(tasks.ConfigurableTask, name, function)
    return json.loads(json.dumps(answers, default=str))


def run(question):
    """Run the model with random answers; return its results and the files it writes."""
    import tempfile

    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager
    from lm_eval.utils import handle_non_serializable

    os.chdir(question["folder"])
    output = tempfile.mkdtemp(dir=question["folder"])
    tracker = EvaluationTracker(output_path=output)
    with contextlib.redirect_stderr(io.StringIO()):
        object = simple_evaluate(
            model="dummy",
            tasks=question["tasks"],
            task_manager=TaskManager(
                include_path=question["folder"], include_defaults=False, metadata=question["metadata"]
            ),
            evaluation_tracker=tracker,
            **question["arguments"],
        )
    answer = {"object": json.loads(json.dumps(object, default=handle_non_serializable))}
    samples = object.pop("samples")
    tracker.save_results_aggregated(object, samples)
    for task in object["configs"]:
        tracker.save_results_samples(task, samples[task])
    [folder] = os.listdir(output)
    files = {}
    for file in os.listdir(f"{output}/{folder}"):
        with open(f"{output}/{folder}/{file}", encoding="utf-8") as content:
            files[file] = content.read()
    return {**answer, "folder": folder, "files": files, "stamp": tracker.date_id}


def main():
    answers = {
        "table": table,
        "stamps": stamps,
        "name": name,
        "read": read,
        "frame": frame,
        "configs": configs,
        "run": run,
    }
    for line in sys.stdin:
        question = json.loads(line)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                answer = {"ok": answers[question["ask"]](question)}
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer))


main()
