"""Vision models of `transformers`, with the installed torch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from lm_eval._lazy import require
from lm_eval.models import _generation
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import flatten_image_list, replace_placeholders, resize_image
from lm_eval.models.utils_hf import stop_sequences_criteria

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

__all__ = ["DEFAULT_IMAGE_PLACEHOLDER", "HFMultimodalLM"]

DEFAULT_IMAGE_PLACEHOLDER = "<image>"
"""What stands for an image in the prompts of tasks."""


class ProcessorLM(HFLM):
    """A model of `transformers` whose prompts a processor makes of text and files."""

    MULTIMODAL = True
    PLACEHOLDER = ""
    """What stands for a file in the prompts of tasks."""
    KEY = ""
    """The name of a request's files."""

    processor: Any = None
    chat_applied = False

    def _processor_options(self) -> dict[str, Any]:
        return {}

    def _create_tokenizer(  # type: ignore[override]
        self,
        pretrained: Any,
        tokenizer: Any,
        revision: str | None = "main",
        trust_remote_code: bool | None = False,
        **kwargs: Any,
    ) -> None:
        """Set the processor, the given object or that of a name, and its tokenizer."""
        transformers = require("transformers", f"`{type(self).__name__}`")
        require("PIL", f"`{type(self).__name__}`", "pillow")
        if tokenizer is not None and not isinstance(tokenizer, str):
            self.processor = tokenizer
        else:
            name = tokenizer or (pretrained if isinstance(pretrained, str) else getattr(pretrained, "name_or_path", None))
            if not name:
                raise ValueError("The model object does not record its origin: pass `tokenizer`, the name of its processor")
            own = {} if tokenizer else {"revision": revision}
            options = {"trust_remote_code": trust_remote_code, **own, **self._processor_options()}
            self.processor = transformers.AutoProcessor.from_pretrained(name, **options)
        self.tokenizer = self.processor.tokenizer

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the source of the processor's template, or of its tokenizer's."""
        own = getattr(self.processor, "chat_template", None)
        if isinstance(own, str):
            return own
        if isinstance(own, dict) and own:
            name = chat_template if isinstance(chat_template, str) else "default"
            return own.get(name)
        return super().chat_template(chat_template)

    def apply_chat_template(
        self, chat_history: list[dict[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """Render a conversation as a prompt; placeholders become parts of its messages."""
        self.chat_applied = True
        messages = copy.deepcopy(chat_history)
        for message in messages:
            if isinstance(message["content"], str):
                message["content"] = self._parts(message["content"])
        return str(self.processor.apply_chat_template(messages, add_generation_prompt=add_generation_prompt))

    def _parts(self, text: str) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _prompts(self, strings: list[str]) -> list[str]:
        """Return the strings with the model's own placeholders."""
        raise NotImplementedError

    def _files(self, request: Instance[Any, Any]) -> list[Any]:
        """Return the files of a request, ready for the processor."""
        raise NotImplementedError

    def _given(self, request: Instance[Any, Any]) -> list[Any]:
        files = request.args[2].get(self.KEY)
        return [] if files is None else list(files) if isinstance(files, (list, tuple)) else [files]

    def _processed(self, strings: list[str], files: list[list[Any]], **options: Any) -> Any:
        raise NotImplementedError

    def _encode(self, requests: list[Instance[Any, Any]], room: int) -> Any:
        """Return the inputs of a batch, at most `room` tokens of each prompt."""
        side, self.tokenizer.padding_side = self.tokenizer.padding_side, "left"
        try:
            files = [self._files(request) for request in requests]
            inputs = self._processed([request.args[0] for request in requests], files)
        finally:
            self.tokenizer.padding_side = side
        inputs = inputs.to(self.device, self.model.dtype)
        if inputs["input_ids"].shape[1] > room:
            for name in ("input_ids", "attention_mask"):
                inputs[name] = inputs[name][:, -room:]
        return inputs

    def _model_multimodal_generate(
        self, inputs: Any, max_length: int, stop: list[str], **generation_kwargs: Any
    ) -> Any:
        """Return prompts followed by the generated tokens; `max_length` includes both."""
        settings = dict(generation_kwargs)
        settings.setdefault("do_sample", False)
        if not settings["do_sample"]:
            settings.pop("temperature", None)
        count, width = inputs["input_ids"].shape
        with self._computing():
            return self.model.generate(
                **inputs,
                max_length=max_length,
                stopping_criteria=stop_sequences_criteria(self.tokenizer, stop, width, count),
                pad_token_id=self.tokenizer.pad_token_id,
                use_cache=True,
                **settings,
            )

    def generate_until(self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False) -> list[str]:
        """Return the generation for each `(context, settings, files)`; without files, for each `(context, settings)`."""
        answers: list[Any] = [None] * len(requests)
        for with_files in (False, True):
            numbers = [index for index, request in enumerate(requests) if (len(request.args) > 2) is with_files]
            some = [requests[index] for index in numbers]
            if not some:
                continue
            found = _generation.generate(self, some, disable_tqdm, self if with_files else None)
            for index, answer in zip(numbers, found, strict=True):
                answers[index] = answer
        return answers

    def loglikelihood(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(context, continuation, files)`."""
        if requests and len(requests[0].args) < 3:
            return super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        answers = []
        for request in requests:
            answer = self._score(request)
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
            answers.append(answer)
        return answers

    def _score(self, request: Instance[Any, Any]) -> tuple[float, bool]:
        """Return the log-likelihood of a continuation after text and files, and whether each token is the likeliest."""
        context, continuation = request.args[0], request.args[1]
        spaces = len(context) - len(context.rstrip())
        if spaces:
            context, continuation = context[:-spaces], context[-spaces:] + continuation
        files = [self._files(request)]
        whole = self._processed([context + continuation], files).to(self.device, self.model.dtype)
        start = self._processed([context], files)["input_ids"].shape[1]
        tokens = whole["input_ids"][0, start:]
        with self._computing():
            logits = self.model(**whole).logits[0, start - 1 : -1].float().log_softmax(-1)
        scores = logits.gather(-1, tokens.unsqueeze(-1)).sum()
        return float(scores), bool((logits.argmax(-1) == tokens).all())

    def loglikelihood_rolling(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[Any]:
        """Return the log-likelihood of each entire string; there is none of images and sounds."""
        if requests and len(requests[0].args) > 2:
            raise NotImplementedError("A rolling log-likelihood of images or sounds does not exist")
        return super().loglikelihood_rolling(requests, disable_tqdm=disable_tqdm)


class HFMultimodalLM(ProcessorLM):
    """A vision model of `transformers`, such as LLaVA, Qwen-VL or SmolVLM."""

    PLACEHOLDER = DEFAULT_IMAGE_PLACEHOLDER
    KEY = "visual"

    def __init__(
        self,
        pretrained: Any,
        image_token_id: int | None = None,
        image_string: str | None = None,
        interleave: bool = True,
        max_images: int | None = 999,
        convert_img_format: bool = False,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        image_width: int | None = None,
        image_height: int | None = None,
        image_max_side: int | None = None,
        **kwargs: Any,
    ) -> None:
        if image_max_side is not None and (image_width is not None or image_height is not None):
            raise ValueError("`image_max_side` cannot be combined with `image_width` and `image_height`")
        self.interleave = interleave
        self.max_images = 999 if max_images is None else int(max_images)
        self.rgb = convert_img_format
        pixels = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        self.pixels = {name: int(count) for name, count in pixels.items() if count}
        self.image_width = image_width
        self.image_height = image_height
        self.image_max_side = image_max_side
        super().__init__(pretrained, **kwargs)
        if self.batch_size == "auto":
            raise ValueError("`batch_size=auto` is not possible with images: set a number")
        if image_string:
            self.image_token = image_string
        else:
            known = (image_token_id, *(getattr(self.config, name, None) for name in ("image_token_id", "image_token_index")))
            number = next((number for number in known if number is not None), None)
            if number is None:
                raise ValueError("The configuration names no image token: set `image_token_id` or `image_string`")
            self.image_token_id = int(number)
            self.image_token = self.tok_decode([self.image_token_id], skip_special_tokens=False)

    def _get_backend(
        self, config: Any, backend: str = "default", trust_remote_code: bool | None = False
    ) -> None:
        """Set the class that loads the model."""
        transformers = require("transformers", "`HFMultimodalLM`")
        self.backend = "causal"
        if self.AUTO_MODEL_CLASS is None:
            names = ("AutoModelForImageTextToText", "AutoModelForVision2Seq")
            self.AUTO_MODEL_CLASS = next(getattr(transformers, name) for name in names if hasattr(transformers, name))

    def _processor_options(self) -> dict[str, Any]:
        return dict(self.pixels)

    def _parts(self, text: str) -> list[dict[str, Any]]:
        """Return a message's text as parts, with up to `max_images` images in place of their placeholders or before the text."""
        if not self.interleave:
            count = min(self.max_images, text.count(self.PLACEHOLDER))
            images: list[dict[str, Any]] = [{"type": "image", "image": None} for _ in range(count)]
            return [*images, {"type": "text", "text": text.replace(self.PLACEHOLDER, "")}]
        parts: list[dict[str, Any]] = []
        texts = text.split(self.PLACEHOLDER)
        for number, part in enumerate(texts):
            if part:
                parts.append({"type": "text", "text": part})
            if number < len(texts) - 1 and number < self.max_images:
                parts.append({"type": "image"})
        return parts

    def _prompts(self, strings: list[str]) -> list[str]:
        if self.chat_applied:
            return strings
        return [replace_placeholders(string, self.PLACEHOLDER, self.image_token, self.max_images) for string in strings]

    def _files(self, request: Instance[Any, Any]) -> list[Any]:
        # Reference: resized before the conversion, which matters for images with palettes.
        size = (self.image_width, self.image_height, self.image_max_side)
        images = [resize_image(image, *size) for image in self._given(request)[: self.max_images]]
        return [image.convert("RGB") for image in images] if self.rgb else images

    def _processed(self, strings: list[str], files: list[list[Any]], **options: Any) -> Any:
        strings = self._prompts(strings)
        options = {"text": strings, "padding": "longest", "return_tensors": "pt", **options}
        if not any(files):
            return self.processor(**options)
        flat = flatten_image_list(files)
        if getattr(self.config, "model_type", "") == "llava":
            return self.processor(images=flat, **options)
        try:
            return self.processor(images=files, **options)
        except (TypeError, ValueError, AttributeError):
            # Some processors take one list for all prompts.
            return self.processor(images=flat, **options)
