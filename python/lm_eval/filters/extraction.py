"""Filters that extract the answer from a generation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter
from lm_eval.filters.transformation import _ElementFilter

__all__ = ["Filter", "MultiChoiceRegexFilter", "POSFilter", "RegexFilter", "WhitespaceFilter"]


@register_filter("regex")
class RegexFilter(Filter):
    """Find a pattern in each answer.

    `group_select` is the index of the match to use; `fallback` is the result where nothing matches.
    """

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: Any = "[invalid]",
    ) -> None:
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Return the matches of the pattern in each answer."""
        return [[self._extract(answer) for answer in answers] for answers in resps]

    def _extract(self, answer: Any) -> Any:
        found = self.regex.findall(answer if isinstance(answer, str) else "")
        if not found:
            return self.fallback
        match = found[self.group_select]
        if isinstance(match, tuple):
            match = next((group for group in match if group), self.fallback)
        return match.strip()


@register_filter("regex_pos")
class POSFilter(_ElementFilter):
    """Find the tags in a list of `('word', 'TAG')` pairs."""

    def __init__(
        self, regex_pattern: str = r"\['(.*?)'\]", group_select: int = 0, fallback: Any = None
    ) -> None:
        # Reference: the pattern must be valid but is never used.
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = ["invalid"] if fallback is None else fallback

    def _answer(self, answer: Any) -> Any:
        pairs = re.findall(r"\('([^']*)', '([^']*)'\)", answer) if isinstance(answer, str) else answer
        return [tag for _, tag in pairs] or self.fallback


@register_filter("remove_whitespace")
class WhitespaceFilter(_ElementFilter):
    """Strip whitespace from both ends of each answer."""

    def _answer(self, answer: str) -> str:
        return answer.strip()


@register_filter("multi_choice_regex")
class MultiChoiceRegexFilter(RegexFilter):
    """Find the letter of an option: by the pattern, by the option itself, or after a colon.

    The documents must have their options under `choices`. The remaining arguments say what is ignored when searching
    for an option.
    """

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: Any = "[invalid]",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: list[str] | None = None,
    ) -> None:
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Return the letter in parentheses, or the match of the pattern, for each answer."""
        filtered = []
        for answers, doc in zip(resps, docs, strict=True):
            find = self._finder(doc["choices"])
            filtered.append([find(answer) or self.fallback for answer in answers])
        return filtered

    def _finder(self, choices: Sequence[str]) -> Callable[[Any], Any]:
        """Return the function that finds an option of one document."""
        letters = [chr(ord("A") + number) for number in range(len(choices))]
        texts = [self._normalise(choice.strip()) for choice in choices]
        by_text = {text: f"({letter})" for text, letter in zip(texts, letters)}
        by_letter = {letter: f"({letter})" for letter in letters}
        text_regex = re.compile("|".join(re.escape(text) for text in texts))
        letter_regex = re.compile(rf":[\s]*({'|'.join(letters)})")

        def find(answer: Any) -> Any:
            return (
                self._find(self.regex, answer, {})
                or self._find(text_regex, self._normalise(answer), by_text)
                or self._find(letter_regex, answer, by_letter)
            )

        return find

    def _find(self, regex: re.Pattern[str], answer: Any, meanings: Mapping[str, str]) -> str:
        found = regex.findall(answer if isinstance(answer, str) else "")
        if not found:
            return ""
        match = found[self.group_select]
        if isinstance(match, tuple):
            match = next((group for group in match if group), "")
        match = match.strip()
        return meanings.get(match, match) if match else ""

    def _normalise(self, text: Any) -> Any:
        for pattern in self.regexes_to_ignore or ():
            text = re.sub(pattern, "", text)
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = "".join(character for character in text if unicodedata.category(character)[0] != "P")
        return text
