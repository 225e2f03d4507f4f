"""Builds a prompt from a document and its examples, for tasks whose class is written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.api.utils import (
    Message,
    maybe_delimit,
    messages_to_text,
    multiturn_to_singleturn,
    requires_delimiter,
)

if TYPE_CHECKING:
    from lm_eval.api.task import Task


def turn(
    question: str,
    answer: Any,
    choices: Sequence[str] | None,
    *,
    prefix: str | None,
    target_delimiter: str,
    fewshot_delimiter: str,
) -> list[Message]:
    """Return the messages of one question, including its answer if given."""
    has_answer = answer is not None and answer != ""
    delimited = requires_delimiter(question, prefix) if prefix else has_answer
    messages = [Message("user", question, target_delimiter if delimited else "")]
    if has_answer:
        text = answer_text(answer, choices)
        messages.append(Message("assistant", maybe_delimit(prefix, text), fewshot_delimiter))
    elif prefix:
        messages.append(Message("assistant", prefix))
    return messages


def answer_text(answer: Any, choices: Sequence[str] | None) -> str:
    """Return the answer as a string: itself, the option at its index, or the first of several."""
    if isinstance(answer, (list, tuple)) and answer:
        answer = answer[0]
    if isinstance(answer, str):
        return answer
    if isinstance(answer, int):
        return choices[answer] if choices else str(answer)
    raise ValueError(f"An answer must be a string or the index of an option, not {answer!r}")


def messages_before(
    task: Task, doc: dict[str, Any], examples: Sequence[dict[str, Any]], system: str
) -> list[Message]:
    """Return the messages before the question: system prompt and examples."""
    messages = [Message("system", system)] if system else []
    fewshot = task.config.fewshot_config
    has_choices = fewshot.doc_to_choice is not None or "doc_to_choice" in task._hooks()
    for example in examples:
        question = task._example_field("doc_to_text", example, fewshot.doc_to_text)
        answer = task._example_field("doc_to_target", example, fewshot.doc_to_target)
        choices = (
            task._example_field("doc_to_choice", example, fewshot.doc_to_choice) if has_choices else None
        )
        if not isinstance(question, str) and choices:
            # An index: the options are contexts, and this is the right one.
            question = choices[question]
        messages += task.build_qa_turn(
            q=question,
            c=choices,
            a=answer,
            gen_prefix=task._resolve(fewshot.gen_prefix, example if task._is_compat_04 else doc),
            tgt_delim=task._example_delimiter,
            few_delim=fewshot.fewshot_delimiter,
        )
    return messages


def render(
    messages: Sequence[Message], chat_template: Callable[..., Any] | None, multiturn: bool, prefix: str | None
) -> Any:
    """Return the prompt: a plain string, or the messages rendered by the chat template."""
    if chat_template is None:
        return messages_to_text(messages)
    conversation = (
        [message.to_dict() for message in messages] if multiturn else multiturn_to_singleturn(messages)
    )
    return chat_template(conversation, add_generation_prompt=not prefix)
