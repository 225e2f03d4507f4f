"""Archives of training data, which this package does not read."""

from __future__ import annotations

from lm_eval._removed import removed_names

_instead = (
    "read archives with the packages `zstandard` and `jsonlines`, and pass their documents to `janitor.Janitor`"
)

__getattr__ = removed_names(
    __name__,
    dict.fromkeys(
        ("Archive", "Reader", "TextArchive", "TextReader", "ZStdTextReader", "json_serial"), _instead
    ),
)
