"""Archives of training data, which this package does not read."""

from __future__ import annotations

from lm_eval._absent import absent

_instead = (
    "read archives with the packages `zstandard` and `jsonlines`, and pass their documents to `janitor.Janitor`"
)

__getattr__ = absent(
    __name__,
    dict.fromkeys(
        ("Archive", "Reader", "TextArchive", "TextReader", "ZStdTextReader", "json_serial"), _instead
    ),
)
