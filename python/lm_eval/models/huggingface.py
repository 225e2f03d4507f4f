"""`HFLM`: a model of `transformers` that runs in this process, on the installed torch.

torch and transformers are imported when a model is made. An existing model object is evaluated as it is.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from lm_eval import _patches
from lm_eval._lazy import require
from lm_eval.api.model import TemplateLM
from lm_eval.models import _generation, _loading, _scoring
from lm_eval.models._loading import Loading
from lm_eval.models._served import Served
from lm_eval.models._state import files_of, settings_of, state_of
from lm_eval.models.utils import _add_special_kwargs, has_bos_prefix, resolve_max_length
from lm_eval.models.utils_hf import clear_torch_cache, get_dtype, stop_sequences_criteria

if TYPE_CHECKING:
    import torch

    from lm_eval.api.instance import Instance

eval_logger = logging.getLogger(__name__)

_AUTO_TOKENS = 16384
"""Tokens per batch of automatic size on a CPU, where trying sizes until memory runs out is not possible."""


_OF_LM = ("apply_chat_template", "chat_template", "generate_until", "get_model_info", "loglikelihood", "loglikelihood_rolling")
"""The methods that an evaluation calls, whatever answers."""


class HFLM(Loading, TemplateLM):
    """A causal or sequence-to-sequence model of `transformers`.

    Subclasses override `_create_model` and `_create_tokenizer` to load something else, `tok_encode` and `tok_decode`
    to tokenize differently, `_model_call` to compute logits and `_model_generate` to generate. A subclass need not
    call this constructor if it sets `_model`, `tokenizer` and `_device`.
    """

    _DEFAULT_MAX_LENGTH = 2048

    # Attributes that the constructor sets, for subclasses with their own.
    tokenizer: Any = None
    truncation: bool | None = False
    logits_cache = True
    add_bos_token: bool | None = None
    softmax_dtype: Any = None
    mixed_precision_dtype: Any = None
    custom_prefix_token_id: int | None = None
    think_end_token: str | int | None = None
    enable_thinking: bool | None = None
    chat_template_args: dict[str, Any] = {}  # noqa: RUF012
    batch_size_per_gpu: int | str = 1
    batch_schedule: float = 1
    max_batch_size: int = 64
    pretrained: Any = None
    revision: str | None = "main"
    peft: str | None = None
    delta: str | None = None
    _max_length: int | None = None
    _subfolder: str = ""
    _shares_contexts: bool | None = None
    _engine: Served | None = None
    _names_engine = False
    _max_gen_toks = 256

    def __init__(
        self,
        pretrained: Any,
        backend: Literal["default", "causal", "seq2seq", "native"] = "default",
        revision: str | None = "main",
        subfolder: str = "",
        tokenizer: Any = None,
        truncation: bool | None = False,
        logits_cache: bool = True,
        max_length: int | None = None,
        device: Any = "cuda",
        dtype: Any = "auto",
        softmax_dtype: Any = None,
        mixed_precision_dtype: Any = None,
        batch_size: int | str | None = 1,
        max_batch_size: int | None = 64,
        trust_remote_code: bool | None = False,
        use_fast_tokenizer: bool | None = True,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        parallelize: bool | None = False,
        max_memory_per_gpu: int | str | None = None,
        max_cpu_memory: int | str | None = None,
        offload_folder: str | os.PathLike[str] | None = "./offload",
        tp_plan: Any = None,
        peft: str | None = None,
        delta: str | None = None,
        autogptq: bool | str | None = False,
        gptqmodel: bool | None = False,
        gguf_file: str | None = None,
        think_end_token: str | int | None = None,
        enable_thinking: bool | None = None,
        chat_template_args: dict[str, Any] | None = None,
        max_gen_toks: int | None = None,
        engine: Literal["torch", "auto"] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        _loading.engine_of(engine)
        self._names_engine = engine is not None
        self._max_gen_toks = 256 if max_gen_toks is None else int(max_gen_toks)
        self.pretrained = pretrained
        self.revision = revision
        self._subfolder = subfolder
        self.peft = peft
        self.delta = delta
        self.truncation = truncation
        self.logits_cache = logits_cache
        self.add_bos_token = add_bos_token
        self.custom_prefix_token_id = prefix_token_id
        self._max_length = max_length
        is_number = isinstance(think_end_token, str) and think_end_token.isdigit()
        self.think_end_token = int(think_end_token) if is_number else think_end_token  # type: ignore[arg-type]
        self.enable_thinking = enable_thinking
        if enable_thinking and think_end_token in (None, ""):
            raise ValueError(
                "`enable_thinking=True` needs `think_end_token`, the string or token that ends the reasoning: "
                "without it, the reasoning is scored as part of the answer"
            )
        self.chat_template_args = dict(chat_template_args or {})
        if enable_thinking is not None:
            self.chat_template_args["enable_thinking"] = enable_thinking
        self._set_batch_size(batch_size, max_batch_size)
        if backend == "native":
            self._use_engine(
                device=None if device == "cuda" else device,
                batch_size=batch_size,
                max_batch_size=max_batch_size,
                arguments={
                    "pretrained": pretrained,
                    "tokenizer": tokenizer,
                    "revision": None if revision == "main" else revision,
                    "max_length": max_length,
                    "dtype": None if dtype == "auto" else str(dtype).removeprefix("torch."),
                    "add_bos_token": add_bos_token,
                    "prefix_token_id": prefix_token_id,
                    "gguf_file": gguf_file,
                    "think_end_token": think_end_token,
                    "enable_thinking": enable_thinking,
                    "chat_template_args": chat_template_args,
                    "subfolder": subfolder or None,
                    "trust_remote_code": trust_remote_code or None,
                    "softmax_dtype": softmax_dtype,
                    "mixed_precision_dtype": mixed_precision_dtype,
                    "truncation": truncation or None,
                    "parallelize": parallelize or None,
                    "peft": peft,
                    "delta": delta,
                    "autogptq": autogptq or None,
                    "gptqmodel": gptqmodel or None,
                    **kwargs,
                },
            )
            return
        require("torch", "`HFLM`")
        require("transformers", "`HFLM`")
        self.softmax_dtype = get_dtype(softmax_dtype)
        self.mixed_precision_dtype = get_dtype(mixed_precision_dtype)
        is_name = isinstance(pretrained, (str, os.PathLike))
        _loading.drop_native(kwargs)
        if is_name:
            if tp_plan:
                _loading.refuse_tensor_parallel(pretrained)
            launch = _loading.Launch.of_environment()
            launch.join(is_split=bool(parallelize or kwargs.get("device_map")))
            self._rank, self._world_size = launch.rank, launch.size
            device = launch.device(device)
            found = _loading.split_adapter(os.fspath(pretrained), peft, revision)
            pretrained, revision, peft, self._adapter_revision = found
            self.pretrained, self.revision, self.peft = pretrained, revision, peft
        source = {"revision": revision, "trust_remote_code": trust_remote_code, "gguf_file": gguf_file}
        if is_name:
            self._get_config(pretrained, **source, subfolder=subfolder)  # type: ignore[arg-type]
        else:
            self._refuse_for_object(
                parallelize=parallelize,
                peft=peft,
                delta=delta,
                autogptq=autogptq,
                gptqmodel=gptqmodel,
                gguf_file=gguf_file,
                tp_plan=tp_plan,
                **kwargs,
            )
            self._model = pretrained
            self._config = getattr(pretrained, "config", None)
        self._get_backend(config=self.config, backend=backend, trust_remote_code=trust_remote_code)
        self._create_tokenizer(
            pretrained,
            tokenizer,
            use_fast_tokenizer=use_fast_tokenizer,
            add_bos_token=add_bos_token,
            subfolder=subfolder,
            **source,  # type: ignore[arg-type]
        )
        if is_name:
            self._device = _loading.choose_device(device)
            self._create_model(
                pretrained=pretrained,
                dtype=dtype,
                parallelize=parallelize,
                gpus=require("torch", "`HFLM`").cuda.device_count(),
                max_memory_per_gpu=max_memory_per_gpu,
                max_cpu_memory=max_cpu_memory,
                offload_folder=offload_folder,  # type: ignore[arg-type]
                tp_plan=tp_plan,
                peft=peft,
                delta=delta,
                autogptq=autogptq,
                gptqmodel=gptqmodel,
                quantization_config=kwargs.pop("quantization_config", None),
                subfolder=subfolder,
                **source,  # type: ignore[arg-type]
                **kwargs,
            )
        self._move_to_device(is_name)
        self.tokenizer = _loading.pad_token(self.tokenizer, self.config)
        self.vocab_size = getattr(self.tokenizer, "vocab_size", None)

    def _set_batch_size(self, batch_size: int | str | None, max_batch_size: int | None) -> None:
        """Parse `8`, `auto`, or `auto:4`, which determines the size four times as sequences get shorter."""
        text = "1" if batch_size is None else str(batch_size)
        word, _, count = text.partition(":")
        if word == "auto":
            self.batch_size_per_gpu = "auto"
            self.batch_schedule = float(count or 1)
        elif text.isdigit() and int(text) > 0:
            self.batch_size_per_gpu = int(text)
        else:
            raise ValueError(f"`batch_size` must be an integer, `auto` or `auto:N`, not {batch_size!r}")
        self.max_batch_size = max_batch_size or 64
        self.batch_sizes: dict[int, int] = {}
        self._detected_sizes: dict[int, int] = {}

    def _refuse_for_object(self, **given: Any) -> None:
        """Raise for arguments about loading the model: this one is already loaded."""
        for name, value in given.items():
            if value:
                raise ValueError(
                    f"`{name}` has no effect on a model object: apply it when you load the model"
                )

    def _use_engine(self, arguments: dict[str, Any], **options: Any) -> None:
        """Let the engine answer instead of torch."""
        if not isinstance(arguments["pretrained"], (str, os.PathLike)):
            raise ValueError('`backend="native"` takes a model name or folder, not an object')
        own = sorted(name for name in _patches.overridden(type(self)) if hasattr(HFLM, name) and name not in _OF_LM)
        for module in sorted(_patches.changed_helpers(type(self))):
            raise ValueError(f'`backend="native"` never calls the functions of `{module}`, which were changed')
        if own:
            raise ValueError(
                f'`backend="native"` never calls `{own[0]}`, which `{type(self).__name__}` overrides'
            )
        if arguments["tokenizer"] is not None and not isinstance(arguments["tokenizer"], str):
            raise ValueError('`backend="native"` takes a tokenizer name or folder, not an object')
        arguments["pretrained"] = os.fspath(arguments["pretrained"])
        given = {name: value for name, value in arguments.items() if value is not None}
        self._engine = Served("hf", given, **options)
        self._max_length = self._max_length or self._engine.facts()["tokenizer"].get("max_length")

    def _move_to_device(self, is_name: bool) -> None:
        """Move a model that was just loaded to its device, and set the device of inputs to the model's."""
        model = self._model
        if is_name and hasattr(model, "to") and self._is_movable(model):
            with contextlib.suppress(NotImplementedError):
                # A model whose weights are not in memory yet stays where its loader puts it.
                model.to(self._device)
        own = getattr(model, "device", None)
        if own is not None and str(own) != "meta":
            self._device = own
        elif self._device is None:
            self._device = _loading.choose_device("cpu")
        if hasattr(model, "eval"):
            model.eval()

    @staticmethod
    def _is_movable(model: Any) -> bool:
        """Whether the model is on one device, and its weights may be moved."""
        if getattr(model, "hf_device_map", None):
            return False
        return not any(
            getattr(model, name, False) for name in ("is_quantized", "is_loaded_in_8bit", "is_loaded_in_4bit")
        )

    def _identity(self) -> dict[str, Any]:
        """Return what identifies this model: its settings, and digests of its weights and tokenizer."""
        dtypes = {name: str(getattr(self, name)) for name in ("softmax_dtype", "mixed_precision_dtype")}
        state = {} if self._engine is not None else state_of(self._model, self.tokenizer)
        return {**super()._identity(), **dtypes, **state}

    def _origin(self) -> dict[str, Any]:
        """Return what identifies a model loaded by name beyond its arguments: its files, and what computes it."""
        if self._engine is not None:
            return {}
        packages = ["torch", "transformers", *(["peft"] if self.peft else [])]
        sources = [(self.pretrained, self.revision, self._subfolder)]
        sources += [(self.peft, self._adapter_revision, ""), (self.delta, None, "")]
        return {
            "packages": [f"{name} {require(name, '`HFLM`').__version__}" for name in packages],
            "device": str(getattr(self._device, "type", self._device)),
            "dtype": str(getattr(self._model, "dtype", None)),
            "commit": getattr(self.config, "_commit_hash", None),
            **settings_of(self._model, self.tokenizer),
            "files": [
                files_of(os.fspath(name), revision, subfolder)
                for name, revision, subfolder in sources
                if isinstance(name, (str, os.PathLike))
            ],
        }

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self._config if self._config is not None else getattr(self._model, "config", None)

    @property
    def model(self) -> Any:
        """The model."""
        return self._model

    @property
    def eot_token_id(self) -> int:
        """The end-of-text token."""
        return self.tokenizer.eos_token_id

    @property
    def prefix_token_id(self) -> int:
        """The token used as an empty context."""
        if self.custom_prefix_token_id is not None:
            return self.custom_prefix_token_id
        bos = getattr(self.tokenizer, "bos_token_id", None)
        return self.eot_token_id if bos is None else bos

    @property
    def max_length(self) -> int:
        """The maximum sequence length of the model, in tokens."""
        if self._max_length:
            return self._max_length
        return resolve_max_length(self.config, self.tokenizer, default=self._DEFAULT_MAX_LENGTH)

    @property
    def max_gen_toks(self) -> int:
        """The maximum number of tokens of an answer, for requests that set none."""
        return self._max_gen_toks

    @property
    def batch_size(self) -> int | str:
        """The number of sequences per batch, or `auto`."""
        return self.batch_size_per_gpu

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer, as part of a file name."""
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        left_truncate_len: int | None = None,
        **kwargs: Any,
    ) -> list[int]:
        """Tokenize a string; a prefix token that it already begins with is not added again."""
        if self._engine is not None:
            raise NotImplementedError('With `backend="native"` only the engine has the tokenizer')
        special = _add_special_kwargs(add_special_tokens, self.add_bos_token)
        if add_special_tokens is None and self._begins_with_prefix(string):
            special = {"add_special_tokens": False}
        tokens: list[int] = self.tokenizer.encode(string, **special, **kwargs)
        return tokens[-left_truncate_len:] if left_truncate_len else tokens

    def _begins_with_prefix(self, string: str) -> bool:
        if self.backend != "causal" or self.prefix_token_id is None:
            return False
        return has_bos_prefix(string, self.tokenizer.decode([self.prefix_token_id]) or None)

    def tok_batch_encode(
        self,
        strings: list[str],
        padding_side: str = "left",
        left_truncate_len: int | None = None,
        truncation: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokenize strings into one padded tensor and its attention mask."""
        torch = require("torch", "`HFLM`")
        options = {"truncation": True} if truncation else {}
        rows = [self.tok_encode(string, **options) for string in strings]
        if left_truncate_len:
            longest = max(map(len, rows))
            if longest > left_truncate_len:
                eval_logger.warning(
                    "A prompt of %d tokens is truncated to the last %d", longest, left_truncate_len
                )
            rows = [row[-left_truncate_len:] for row in rows]
        width = max(map(len, rows))
        tokens = torch.full((len(rows), width), int(self.tokenizer.pad_token_id or 0), dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for index, row in enumerate(rows):
            span = slice(width - len(row), width) if padding_side == "left" else slice(0, len(row))
            tokens[index, span] = torch.tensor(row, dtype=torch.long)
            mask[index, span] = 1
        return tokens, mask

    def tok_decode(self, tokens: Any, skip_special_tokens: bool = True) -> str:
        """Decode tokens."""
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)
        return text

    def _autocast(self) -> Any:
        if self.mixed_precision_dtype is None:
            return contextlib.nullcontext()
        torch = require("torch", "`HFLM`")
        return torch.autocast(device_type=self.device.type, dtype=self.mixed_precision_dtype)

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        with require("torch", "`HFLM`").no_grad(), self._autocast():
            yield

    def _model_call(
        self, inps: torch.Tensor, attn_mask: torch.Tensor | None = None, labels: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the logits of a batch of tokens; `labels` are the targets of a decoder."""
        given = {} if attn_mask is None else {"attention_mask": attn_mask}
        if labels is not None:
            given["labels"] = labels
        with self._computing():
            logits: torch.Tensor = self.model(inps, **given).logits
        return logits

    def _model_generate(
        self, context: torch.Tensor, max_length: int, stop: list[str], **generation_kwargs: Any
    ) -> torch.Tensor:
        """Return contexts followed by the generated tokens; `max_length` includes both.

        A `max_new_tokens` in the model's own generation settings overrides it: that is how `transformers` reads them.
        """
        start = context.shape[1] if self.backend == "causal" else 1
        settings = dict(generation_kwargs)
        settings.setdefault("do_sample", False)
        if not settings["do_sample"]:
            settings.pop("temperature", None)
        criteria = stop_sequences_criteria(self.tokenizer, stop, start, context.shape[0])
        with self._computing():
            written: torch.Tensor = self.model.generate(
                input_ids=context,
                max_length=max_length,
                stopping_criteria=criteria,
                pad_token_id=self.tokenizer.pad_token_id,
                use_cache=True,
                **settings,
            )
        return written

    def _select_cont_toks(
        self, logits: torch.Tensor, contlen: int | None = None, inplen: int | None = None
    ) -> torch.Tensor:
        """Return the logits at the positions that predict the continuation."""
        if self.backend == "causal":
            if not contlen or not inplen:
                raise ValueError("The lengths of the input and of the continuation are required")
            return logits[inplen - contlen : inplen]
        if not contlen or inplen:
            raise ValueError("A decoder's logits are selected only by the length of the continuation")
        return logits[:contlen]

    def loglikelihood(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(context, continuation)`."""
        if self.enable_thinking and requests:
            raise ValueError(
                "`enable_thinking=True` does not work with log-likelihoods, which score an answer without "
                f"preceding reasoning: use tasks that generate, or omit the argument{_named(requests[0])}"
            )
        if self._engine is not None:
            return self._engine.loglikelihood(requests)
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(  # type: ignore[override]
        self,
        requests: list[tuple[Any, list[int], list[int]]],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[tuple[float, bool]]:
        """Return `(log-likelihood, is greedy)` of each `(strings, context tokens, continuation tokens)`."""
        return _scoring.score(self, requests, disable_tqdm, override_bs)

    def loglikelihood_rolling(
        self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False
    ) -> list[Any]:
        """Return the log-likelihood of each entire string, in windows where it is longer than the model allows.

        A request `("", text)` is answered with `(log-likelihood, False)`, and `(text,)` with the bare number.
        """
        if self._engine is not None:
            return self._engine.loglikelihood_rolling(requests)
        return _scoring.score_rolling(self, requests, disable_tqdm)

    def _distributions(self, requests: list[tuple[Any, ...]], share: float, most: int) -> Iterator[Any]:
        """Yield the tokens of each request and the probabilities in the place of each scored one."""
        if self._engine is not None:
            raise NotImplementedError('With `backend="native"` only the engine has the probabilities of tokens')
        return _scoring.distributions(self, requests, share, most)

    def generate_until(self, requests: list[Instance[Any, Any]], disable_tqdm: bool = False) -> list[str]:
        """Return the generation for each `(context, settings)`."""
        if self._engine is not None:
            return self._engine.generate_until(requests)
        return _generation.generate(self, requests, disable_tqdm)

    def _batch_scheduler(self, pos: Any, n_reordered_requests: list[Any]) -> int:
        """Return the size of the batch that starts at `pos` of the ordered rows."""
        if self.batch_size != "auto":
            return int(self.batch_size)
        slots = min(int(self.batch_schedule), len(n_reordered_requests))
        slot = int(pos) * slots // max(1, len(n_reordered_requests))
        if slot not in self.batch_sizes:
            self.batch_sizes[slot] = self._detected_sizes[slot] = self._detect_batch_size(n_reordered_requests, int(pos))
            eval_logger.info("Batch size: %d", self.batch_sizes[slot])
        return self.batch_sizes[slot]

    def _forget_batch_sizes(self) -> None:
        """Forget the sizes that were detected for earlier requests; sizes that a script has set stay."""
        if self.batch_sizes == self._detected_sizes:
            self.batch_sizes.clear()
            self._detected_sizes.clear()

    def _detect_batch_size(self, requests: list[Any] | None = None, pos: int = 0) -> int:
        """Return how many rows fit in memory: as long as the request at `pos`, or as long as the model allows.

        Requests are `(strings, context tokens, continuation tokens)`.
        """
        length = self.max_length
        if requests:
            _, context, continuation = requests[pos]
            needed = max(len(context), len(continuation))
            if self.backend == "causal":
                # The last token is only predicted, never an input.
                needed = len(context) + len(continuation) - 1
            length = min(needed, length)
        if self.device is None or self.device.type == "cpu":
            # On a CPU, running out of memory kills the process, so sizes cannot be tried.
            return max(1, min(self.max_batch_size, _AUTO_TOKENS // max(1, length)))
        torch = require("torch", "`HFLM`")
        out_of_memory = _scoring.out_of_memory(torch)
        size = self.max_batch_size
        while size > 1:
            tokens = torch.ones((size, max(1, length)), dtype=torch.long, device=self.device)
            try:
                with torch.no_grad():
                    if self.backend == "causal":
                        self._model_call(tokens).float().log_softmax(-1)
                    else:
                        self._model_call(tokens, attn_mask=torch.ones_like(tokens), labels=tokens)
                break
            except out_of_memory:
                size //= 2
            finally:
                clear_torch_cache()
        return size

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Render a conversation as a prompt; system messages are omitted if the template does not support them."""
        if self._engine is not None:
            return self._engine.apply_chat_template(chat_history, add_generation_prompt)
        jinja2 = require("jinja2", "A chat template", "Jinja2")
        options = {
            "tokenize": False,
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": not add_generation_prompt,
            **self.chat_template_args,
        }
        try:
            return str(self.tokenizer.apply_chat_template(chat_history, **options))
        except jinja2.exceptions.TemplateError:
            rest = [message for message in chat_history if message["role"] != "system"]
            if len(rest) == len(chat_history):
                raise
            eval_logger.warning("The chat template rejected the conversation: omitting system messages")
            return str(self.tokenizer.apply_chat_template(rest, **options))

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the source of the tokenizer's template: the named one of several, otherwise the default."""
        if self._engine is not None:
            return self._engine.chat_template(chat_template)
        return super().chat_template(chat_template)

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's entry in results."""
        if self._engine is not None:
            return self._engine.get_model_info()
        model = self.model
        count = model.num_parameters() if hasattr(model, "num_parameters") else -1
        info = {
            "model_num_parameters": count,
            "model_dtype": getattr(model, "dtype", ""),
            "model_revision": self.revision,
            "model_sha": getattr(self.config, "_commit_hash", None) or "",
        }
        for name in ("peft", "delta"):
            if getattr(self, name):
                info[name] = getattr(self, name)
        if self._names_engine:
            versions = (f"{name} {require(name, '`HFLM`').__version__}" for name in ("torch", "transformers"))
            info["engine"] = ", ".join(versions)
        return info


def _named(request: Instance[Any, Any]) -> str:
    return f" (task `{request.task_name}`)" if request.task_name else ""
