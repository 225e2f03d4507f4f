"""Audio models of `transformers`, with the installed torch."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from lm_eval._lazy import require
from lm_eval.models.hf_vlms import ProcessorLM

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

__all__ = ["DEFAULT_AUDIO_PLACEHOLDERS", "HFAUDIOLMQWEN"]

DEFAULT_AUDIO_PLACEHOLDERS = ["<audio>"]
"""What stands for a sound in the prompts of tasks."""


class HFAUDIOLMQWEN(ProcessorLM):
    """An audio model such as Qwen2-Audio."""

    PLACEHOLDER = DEFAULT_AUDIO_PLACEHOLDERS[0]
    KEY = "audio"
    AUDIO_TOKENS = "<|audio_bos|><|AUDIO|><|audio_eos|>"
    """What stands for a sound in a prompt of the model."""

    def __init__(self, pretrained: Any, max_audios: int | None = 5, **kwargs: Any) -> None:
        self.max_audios = 5 if max_audios is None else int(max_audios)
        super().__init__(pretrained, **kwargs)
        if self.batch_size == "auto":
            raise ValueError("`batch_size=auto` is not possible with sounds: set a number")

    def _get_backend(
        self, config: Any, backend: str = "default", trust_remote_code: bool | None = False
    ) -> None:
        """Set the class that loads the model."""
        transformers = require("transformers", "`HFAUDIOLMQWEN`")
        self.backend = "causal"
        if self.AUTO_MODEL_CLASS is None:
            self.AUTO_MODEL_CLASS = transformers.Qwen2AudioForConditionalGeneration

    def _parts(self, text: str) -> list[dict[str, Any]]:
        """Return a message's text as parts: up to `max_audios` sounds, then the text without placeholders."""
        count = min(self.max_audios, text.count(self.PLACEHOLDER))
        sounds: list[dict[str, Any]] = [{"type": "audio", "audio": None} for _ in range(count)]
        return [*sounds, {"type": "text", "text": text.replace(self.PLACEHOLDER, "")}]

    def _prompts(self, strings: list[str]) -> list[str]:
        if self.chat_applied:
            return strings
        return [string.replace(self.PLACEHOLDER, self.AUDIO_TOKENS, self.max_audios) for string in strings]

    def _files(self, request: Instance[Any, Any]) -> list[Any]:
        rate = self._rate()
        return [_resampled(sound, rate) for sound in self._given(request)[: self.max_audios]]

    def _rate(self) -> int:
        return int(self.processor.feature_extractor.sampling_rate)

    def _processed(self, strings: list[str], files: list[list[Any]], **options: Any) -> Any:
        sounds = [sound for each in files for sound in each]
        options = {"text": self._prompts(strings), "padding": True, "return_tensors": "pt", **options}
        if not sounds:
            return self.processor(**options)
        # The name of the argument has changed between versions.
        names = inspect.signature(self.processor.__call__).parameters
        name = "audio" if "audio" in names else "audios"
        return self.processor(**{name: sounds}, sampling_rate=self._rate(), **options)


def _resampled(sound: Any, rate: int) -> Any:
    """Return the samples of a sound at a rate."""
    array, own = sound["array"], int(sound["sampling_rate"])
    if own == rate:
        return array
    librosa = require("librosa", f"A sound with {own} Hz for a model with {rate} Hz")
    return librosa.resample(array, orig_sr=own, target_sr=rate)
