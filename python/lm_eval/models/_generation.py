"""Generation of an `HFLM`: batches of requests with the same settings, longest prompts first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval._lazy import require
from lm_eval.models._plan import batches
from lm_eval.models._scoring import bar
from lm_eval.models.utils import (
    _settings_key,
    handle_stop_sequences,
    normalize_gen_kwargs,
    postprocess_generated_text,
    warn_once,
)

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.models.hf_vlms import ProcessorLM
    from lm_eval.models.huggingface import HFLM


def generate(
    lm: HFLM, requests: list[Instance[Any, Any]], is_quiet: bool, processor: ProcessorLM | None = None
) -> list[str]:
    """Return the generation for each `(context, settings)`; a processor encodes prompts with images or sounds."""
    groups: dict[Any, list[int]] = {}
    for number, request in enumerate(requests):
        if not isinstance(request.args[1], dict):
            kind = type(request.args[1]).__name__
            raise TypeError(f"Generation settings must be a dictionary, not a value of type `{kind}`")
        groups.setdefault(_settings_key(request.args[1]), []).append(number)
    lengths = [len(lm.tok_encode(request.args[0])) for request in requests]
    answers: list[Any] = [None] * len(requests)
    size = int(lm._detect_batch_size()) if lm.batch_size == "auto" else int(lm.batch_size)
    with bar(len(requests), "Running generate_until requests", is_quiet) as progress:
        for numbers in groups.values():
            numbers.sort(key=lambda number: (-lengths[number], requests[number].args[0]))
            for batch in batches(numbers, lambda _: size):
                some = [requests[number] for number in batch]
                generations = _continue(lm, some, some[0].args[1], processor)
                for number, text in zip(batch, generations, strict=True):
                    answers[number] = text
                    lm.cache_hook.add_partial("generate_until", requests[number].args, text)
                progress.update(len(batch))
    return answers


def _continue(
    lm: HFLM, requests: list[Instance[Any, Any]], given: dict[str, Any], processor: ProcessorLM | None
) -> list[str]:
    """Generate after the contexts."""
    settings: dict[str, Any] = dict(normalize_gen_kwargs(given, lm.max_gen_toks))
    limit = settings.pop("max_gen_toks")
    eos = lm.tok_decode(lm.eot_token_id, skip_special_tokens=False) if lm.eot_token_id is not None else None
    until = handle_stop_sequences(settings.pop("until"), eos)
    room = lm.max_length - limit if lm.backend == "causal" else lm.max_length
    if room <= 0:
        raise ValueError(
            f"{limit} new tokens leave no room for a prompt: the model's maximum length is {lm.max_length}; lower `max_gen_toks`"
        )
    if processor is not None:
        inputs = processor._encode(requests, room)
        start = inputs["input_ids"].shape[1]
        settings.setdefault("max_length", start + limit)
        with require("torch", "`HFLM`").no_grad():
            rows = processor._model_multimodal_generate(inputs, stop=until, **settings)
        return [_text(lm, row, start, until) for row in rows.tolist()]
    contexts = [request.args[0] for request in requests]
    tokens, mask = lm.tok_batch_encode(contexts, left_truncate_len=room, truncation=bool(lm.truncation))
    if tokens.shape[1] == 0:
        raise ValueError(
            "A prompt without tokens cannot be continued: the tokenizer adds no token to an empty string"
        )
    start = tokens.shape[1] if lm.backend == "causal" else 1
    if "max_length" in settings:
        warn_once("`max_length` of a request overrides its limit of new tokens")
    else:
        settings["max_length"] = start + limit
    with require("torch", "`HFLM`").no_grad():
        rows = lm._model_generate(
            context=tokens.to(lm.device), attention_mask=mask.to(lm.device), stop=until, **settings
        )
    return [_text(lm, row, start, until) for row in rows.tolist()]


def _text(lm: HFLM, row: list[int], start: int, until: list[str]) -> str:
    """Return the answer in a sequence: without context, reasoning, and everything from a stop sequence on."""
    written = row[start:] if lm.backend == "causal" else row
    marker = lm.think_end_token
    if isinstance(marker, int):
        if marker in written:
            written = written[len(written) - written[::-1].index(marker) :]
        text = lm.tok_decode(written).lstrip()
    else:
        text = lm.tok_decode(written)
    return postprocess_generated_text(text, until, marker if isinstance(marker, str) else None)
