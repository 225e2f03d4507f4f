"""Types of the results of an evaluation."""

from __future__ import annotations

from typing import Any, TypedDict

__all__ = ["EvalResults", "SampleResult"]


class SampleResult(TypedDict, total=False):
    """The sample of one document; its metric values are additional keys."""

    doc_id: int
    doc: dict[str, Any]
    target: Any
    arguments: Any
    resps: Any
    filtered_resps: Any
    filter: str
    metrics: list[str]
    doc_hash: str
    prompt_hash: str
    target_hash: str


EvalResults = TypedDict(
    "EvalResults",
    {
        "results": dict[str, dict[str, Any]],
        "groups": dict[str, dict[str, Any]],
        "group_subtasks": dict[str, list[str]],
        "configs": dict[str, dict[str, Any]],
        "versions": dict[str, Any],
        "n-shot": dict[str, int],
        "higher_is_better": dict[str, dict[str, Any]],
        "n-samples": dict[str, dict[str, int]],
        "samples": dict[str, list[SampleResult]],
        "audit": dict[str, Any],
        "bounds": dict[str, dict[str, list[float]]],
        "compat": str,
        "failed_requests": Any,
        "config": dict[str, Any],
        "git_hash": str,
        "date": float,
        "pretty_env_info": str,
        "transformers_version": str,
        "lm_eval_version": str,
        "upper_git_hash": str,
        "tokenizer_pad_token": list[str],
        "tokenizer_eos_token": list[str],
        "tokenizer_bos_token": list[str],
        "eot_token_id": int,
        "max_length": int,
        "model_source": str,
        "model_name": str,
        "model_name_sanitized": str,
        "system_instruction": str,
        "system_instruction_sha": str,
        "fewshot_as_multiturn": bool,
        "chat_template": str,
        "chat_template_sha": str,
        "task_hashes": dict[str, str],
        "total_evaluation_time_seconds": str,
    },
    total=False,
)
"""The return value of `simple_evaluate`, and the content of results files."""
