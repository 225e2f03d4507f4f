"""Models that need a server: their classes can be imported and subclassed, but not instantiated."""

from __future__ import annotations

from typing import Any

from lm_eval.api.model import LM

_COMPLETIONS = (
    "start an OpenAI-compatible server for the model, and use `local-completions` or "
    "`local-chat-completions` with its URL"
)
_INSTEAD = {
    "litellm": "start LiteLLM's proxy, and use `local-chat-completions` with its URL",
    "mamba_ssm": "`HFLM` runs Mamba checkpoints that `transformers` can load, such as those named `*-hf`, and "
    "model objects; subclass it for others",
    "steered": "register forward hooks on a model of `transformers`, and pass it to `HFLM` as `pretrained`",
    "hf-mistral3": "load the model with `transformers`, and pass it to `HFLM` as `pretrained`",
    "openvino": "load the model with `optimum.intel.OVModelForCausalLM`, and pass it to `HFLM` as `pretrained`",
    "ipex": "load the model with `optimum.intel.IPEXModelForCausalLM`, and pass it to `HFLM` as `pretrained`",
}


class UnsupportedModel(LM):
    """A model that is not part of this package."""

    NAME = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        instead = _INSTEAD.get(self.NAME, _COMPLETIONS)
        raise NotImplementedError(
            f"`{type(self).__name__}` is not part of this package: {instead}. Where the original package is installed, "
            f"`lm-eval run --model lm_eval:{self.NAME}` runs its model"
        )

    def loglikelihood(self, requests: Any) -> Any:
        """Unreachable: the class cannot be instantiated."""
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any) -> Any:
        """Unreachable: the class cannot be instantiated."""
        raise NotImplementedError

    def generate_until(self, requests: Any) -> Any:
        """Unreachable: the class cannot be instantiated."""
        raise NotImplementedError
