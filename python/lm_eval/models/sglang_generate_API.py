"""SGLang servers, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["SGLANGGENERATEAPI"]


class SGLANGGENERATEAPI(ServedLM):
    """The native API of an SGLang server."""

    NAME = "sglang-generate"
