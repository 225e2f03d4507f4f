"""Messages of a prompt and the delimiters between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Message", "maybe_delimit", "messages_to_text", "multiturn_to_singleturn", "requires_delimiter"]


def requires_delimiter(prefix: str, suffix: str) -> bool:
    """Return whether a delimiter belongs between two strings: neither may have whitespace at the seam."""
    return bool(prefix) and not (prefix[-1].isspace() or suffix[0].isspace())


def maybe_delimit(prefix: str | None, suffix: str | None, delimiter: str = " ") -> str:
    """Join two strings, with a delimiter if one belongs between them."""
    if not prefix or not suffix:
        return (prefix or "") + (suffix or "")
    return prefix + (delimiter if requires_delimiter(prefix, suffix) else "") + suffix


@dataclass
class Message:
    """One message of a prompt; the delimiter follows it when messages become a plain string."""

    role: str
    content: str
    _delimiter: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the message in the form chat templates take."""
        return {"role": self.role, "content": self.content}

    def to_text(self) -> str:
        """Return the message as a plain string."""
        return self.content + self._delimiter


def messages_to_text(messages: Sequence[Message]) -> str:
    """Return all messages as a plain string."""
    return "".join(message.to_text() for message in messages)


def multiturn_to_singleturn(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Merge all turns into one user message; an assistant message at the end stays separate."""
    system = [message for message in messages if message.role == "system"]
    turns = [message for message in messages if message.role != "system"]
    prefill = turns.pop() if turns and turns[-1].role == "assistant" else None
    merged = "".join(message.to_text() for message in turns[:-1]) + (turns[-1].content if turns else "")
    conversation = [message.to_dict() for message in system]
    conversation.append({"role": "user", "content": merged})
    if prefill is not None:
        conversation.append(prefill.to_dict())
    return conversation


def ends_with_whitespace(s: str) -> bool:
    """Return whether the last character of a string is whitespace."""
    return s[-1:].isspace()


def format_turn(content: str, role: str, type: str | None = None) -> dict[str, str]:
    """Return one turn of a conversation."""
    turn = {"role": role, "content": content}
    return turn if type is None else {"type": type, **turn}


def random_task_id() -> str:
    """Return eight random letters and digits, to name a task that has no name."""
    from lm_eval.utils import random_name_id

    return random_name_id()
