"""Named prompts, for `use_prompt` of older task files."""

from __future__ import annotations

from typing import Any

from lm_eval._removed import removed_names

__all__ = ["PROMPT_REGISTRY", "get_prompt"]

PROMPT_REGISTRY: dict[str, dict[str, str]] = {
    "qa-basic": {
        "question-newline-answer": "Question: {{question}}\nAnswer:",
        "q-newline-a": "Q: {{question}}\nA:",
    },
}
"""Templates by category and name."""


def get_prompt(prompt_id: str, dataset_name: str | None = None, subset_name: str | None = None) -> Any:
    """Return the template of `category:name`; for the category `promptsource`, the object of that package."""
    category, colon, name = prompt_id.partition(":")
    if not colon:
        raise ValueError(f"A prompt name must be `category:name`, not `{prompt_id}`")
    if category == "promptsource":
        try:
            from promptsource.templates import DatasetTemplates
        except ImportError as error:
            raise ModuleNotFoundError(f"The prompt `{prompt_id}` needs the package `promptsource`") from error
        templates = DatasetTemplates(dataset_name=dataset_name, subset_name=subset_name)
        if name not in templates.all_template_names:
            raise ValueError(
                f"`{name}` is not a prompt of `{dataset_name}`: {', '.join(templates.all_template_names)}"
            )
        return templates[name]
    known = PROMPT_REGISTRY.get(category, {})
    if name not in known:
        names = (f"{category}:{name}" for category, named in PROMPT_REGISTRY.items() for name in named)
        raise ValueError(f"`{prompt_id}` is not a known prompt; the prompts are {', '.join(names)}")
    return known[name]


_instead = "write templates into the task: `doc_to_text` and `doc_to_target`, or a prompt format (`task@format`)"
__getattr__ = removed_names(__name__, dict.fromkeys(("PromptString", "load_prompt_list"), _instead))
