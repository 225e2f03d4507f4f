"""Loads the configuration, tokenizer and model of an `HFLM` with `transformers`."""

from __future__ import annotations

import json
import logging
import os
from typing import Any, NamedTuple

from lm_eval._lazy import require
from lm_eval.models.utils import configure_pad_token
from lm_eval.models.utils_hf import get_dtype

logger = logging.getLogger(__name__)

_QUANTISED = (
    "`{}` is not supported: `transformers` loads GPTQ checkpoints itself if `gptqmodel` is installed, so "
    "omit the argument, or load the model yourself and pass it as `pretrained`"
)

_REPLACED_WEIGHTS = (
    "weight",
    "modules_to_save.weight",
    "original_module.weight",
    "base_layer.weight",
    "token_adapter.base_layer.weight",
)
"""Endings of the names of weights that an adapter replaces entirely."""


class Loading:
    """The steps of the constructor that subclasses override."""

    AUTO_MODEL_CLASS: Any = None
    backend: str = "causal"
    tokenizer: Any
    _config: Any = None
    _model: Any = None
    _device: Any = None

    def _get_config(
        self,
        pretrained: str,
        *,
        revision: str = "main",
        trust_remote_code: bool = False,
        gguf_file: str | None = None,
        subfolder: str = "",
    ) -> None:
        """Set the configuration."""
        transformers = require("transformers", "`HFLM`")
        self._config = transformers.AutoConfig.from_pretrained(
            pretrained, trust_remote_code=trust_remote_code, **_source(revision, gguf_file, subfolder)
        )

    def _get_backend(
        self, config: Any, backend: str = "default", trust_remote_code: bool | None = False
    ) -> None:
        """Set whether the model is causal or sequence-to-sequence, and the class that loads it."""
        transformers = require("transformers", "`HFLM`")
        classes = {
            "causal": transformers.AutoModelForCausalLM,
            "seq2seq": transformers.AutoModelForSeq2SeqLM,
        }
        if backend == "default":
            from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

            is_seq2seq = getattr(config, "model_type", None) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
            backend = "seq2seq" if is_seq2seq else "causal"
        if backend not in classes:
            raise ValueError(f"`backend` must be default, causal, seq2seq or native, not {backend!r}")
        self.backend = backend
        if self.AUTO_MODEL_CLASS is None:
            self.AUTO_MODEL_CLASS = classes[backend]

    def _create_tokenizer(
        self,
        pretrained: Any,
        tokenizer: Any,
        revision: str | None = "main",
        trust_remote_code: bool | None = False,
        use_fast_tokenizer: bool | None = True,
        gguf_file: str | None = None,
        add_bos_token: bool | None = None,
        subfolder: str | None = "",
    ) -> None:
        """Set the tokenizer: the given object or name, otherwise that of the model."""
        if tokenizer is not None and not isinstance(tokenizer, str):
            self.tokenizer = tokenizer
            return
        transformers = require("transformers", "`HFLM`")
        options: dict[str, Any] = {"trust_remote_code": trust_remote_code, "use_fast": use_fast_tokenizer}
        if add_bos_token is not None:
            options["add_bos_token"] = add_bos_token
        name = tokenizer
        if name is None:
            name = pretrained if isinstance(pretrained, str) else getattr(pretrained, "name_or_path", None)
            options |= _source(revision, gguf_file, subfolder or "")
        if not name:
            raise ValueError("The model object does not record its origin: pass `tokenizer`")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)

    def _get_accelerate_args(
        self,
        parallelize: bool | None = None,
        device_map: str | None = "auto",
        max_memory_per_gpu: int | str | None = None,
        max_cpu_memory: int | str | None = None,
        offload_folder: str | None = "./offload",
        gpus: int | None = None,
    ) -> dict[str, Any]:
        """Return the arguments that distribute a model over the devices of this machine."""
        if not parallelize:
            return {}
        require("accelerate", "`parallelize`")
        torch = require("torch", "`parallelize`")
        arguments: dict[str, Any] = {"device_map": device_map, "offload_folder": offload_folder}
        memory: dict[Any, int | str] = {}
        if max_memory_per_gpu is not None:
            memory = dict.fromkeys(range(gpus or torch.cuda.device_count()), max_memory_per_gpu)
        if max_cpu_memory is not None:
            memory["cpu"] = max_cpu_memory
        if memory:
            arguments["max_memory"] = memory
        return arguments

    def _create_model(
        self,
        pretrained: str,
        revision: str | None = "main",
        dtype: Any = "auto",
        trust_remote_code: bool | None = False,
        parallelize: bool | None = False,
        gpus: int | None = None,
        max_memory_per_gpu: int | str | None = None,
        max_cpu_memory: int | str | None = None,
        offload_folder: str | None = "./offload",
        tp_plan: Any = None,
        peft: str | None = None,
        delta: str | None = None,
        autogptq: bool | str | None = False,
        gptqmodel: bool | None = False,
        gguf_file: str | None = None,
        quantization_config: Any = None,
        subfolder: str = "",
        **kwargs: Any,
    ) -> None:
        """Set the model; other arguments go to `from_pretrained`."""
        for name, value in (("autogptq", autogptq), ("gptqmodel", gptqmodel)):
            if value:
                raise NotImplementedError(_QUANTISED.format(name))
        if peft and delta:
            raise ValueError("`peft` and `delta` cannot be combined")
        options = {
            **_source(revision, gguf_file, subfolder),
            "trust_remote_code": trust_remote_code,
            **kwargs,
        }
        options |= (
            {}
            if "device_map" in kwargs
            else self._get_accelerate_args(
                parallelize,
                max_memory_per_gpu=max_memory_per_gpu,
                max_cpu_memory=max_cpu_memory,
                offload_folder=offload_folder,
                gpus=gpus,
            )
        )
        if tp_plan is not None:
            options["tp_plan"] = tp_plan
        if quantization_config is not None:
            options["quantization_config"] = quantization_config
        options[_dtype_argument()] = get_dtype(dtype)
        self._model = self.AUTO_MODEL_CLASS.from_pretrained(pretrained, **options)
        if peft:
            self._add_adapter(peft)
        if delta:
            self._add_delta(delta, {**options, "revision": "main"})

    def _add_adapter(self, name: str) -> None:
        """Apply an adapter to the model, resizing the embeddings to those of the adapter if it has any."""
        peft = require("peft", "`peft`")
        rows = self._model.get_input_embeddings().weight.shape[0]
        wanted = _embedding_rows(self._model, peft.load_peft_weights(name, device="cpu"))
        if wanted not in (None, rows):
            logger.info("Resizing the embeddings from %d to %d rows for the adapter", rows, wanted)
            self._model.resize_token_embeddings(wanted)
        self._model = peft.PeftModel.from_pretrained(self._model, name)

    def _add_delta(self, name: str, options: dict[str, Any]) -> None:
        """Add the weights of another checkpoint to those of the model."""
        torch = require("torch", "`delta`")
        other = self.AUTO_MODEL_CLASS.from_pretrained(name, **options).state_dict()
        missing = [key for key, _ in self._model.named_parameters() if key not in other]
        if missing:
            raise KeyError(f"`{name}` has no weights for `{missing[0]}` of the model")
        with torch.no_grad():
            for key, weights in self._model.named_parameters():
                weights += other[key].to(weights.device, weights.dtype)


def _embedding_rows(model: Any, weights: dict[str, Any]) -> int | None:
    """Return the number of embedding rows among an adapter's weights, or `None` if it has no embeddings."""
    layers = (model.get_input_embeddings(), model.get_output_embeddings())
    names = [name for name, module in model.named_modules() if any(module is layer for layer in layers)]
    # Nesting depends on the kind of adapter and the version of `transformers`; only the last name is reliable.
    ends = tuple(f".{name.rpartition('.')[2]}.{part}" for name in names for part in _REPLACED_WEIGHTS)
    return next((int(found.shape[0]) for key, found in weights.items() if key.endswith(ends)), None)


def choose_device(wanted: Any) -> Any:
    """Return the device to run on: the requested one, or the CPU without a GPU."""
    torch = require("torch", "`HFLM`")
    if isinstance(wanted, torch.device):
        return wanted
    has_gpu = torch.cuda.is_available()
    if wanted is None:
        return torch.device("cuda" if has_gpu else "cpu")
    if str(wanted).partition(":")[0] == "cuda" and not has_gpu:
        if str(wanted) != "cuda":
            raise ValueError(f"Device `{wanted}` is not available: torch finds no CUDA GPU")
        logger.warning("torch finds no CUDA GPU: running the model on the CPU")
        return torch.device("cpu")
    return torch.device(wanted)


def pad_token(tokenizer: Any, config: Any) -> Any:
    """Return a tokenizer that can pad; one that is not from `transformers` is returned unchanged."""
    return configure_pad_token(tokenizer, config) if hasattr(tokenizer, "add_special_tokens") else tokenizer


class Launch(NamedTuple):
    """The place of this process among those that a launcher such as `accelerate launch` has started."""

    rank: int
    size: int
    local_rank: int

    @classmethod
    def of_environment(cls) -> Launch:
        """Read the variables that launchers set; without them, this is the only process."""

        def number(name: str, otherwise: int) -> int:
            text = os.environ.get(name, "")
            return int(text) if text.isdigit() else otherwise

        rank = number("RANK", 0)
        return cls(rank, number("WORLD_SIZE", 1), number("LOCAL_RANK", rank))

    def join(self, *, is_split: bool) -> None:
        """Connect the processes, so that they can share the requests of an evaluation."""
        if self.size == 1:
            return
        if is_split:
            raise NotImplementedError(
                f"A launcher has started {self.size} processes, and each would spread its copy of the model over all "
                "GPUs: start the command without the launcher, or omit `parallelize`, `device_map` and `tp_plan`"
            )
        distributed = require("torch", "`HFLM`").distributed
        if not distributed.is_initialized():
            # Only requests and answers are exchanged, from memory.
            distributed.init_process_group("gloo", rank=self.rank, world_size=self.size)

    def device(self, wanted: Any) -> Any:
        """Return the device to ask for: each process on a machine has a GPU of its own."""
        return f"cuda:{self.local_rank}" if self.size > 1 and wanted in (None, "cuda") and _has_gpu() else wanted


def _has_gpu() -> bool:
    return bool(require("torch", "`HFLM`").cuda.is_available())


def split_adapter(name: str, peft: str | None) -> tuple[str, str | None]:
    """Return the model and the adapter for a folder that has only an adapter, which names its model."""
    config = os.path.join(name, "adapter_config.json")
    if peft or not os.path.isfile(config) or os.path.isfile(os.path.join(name, "config.json")):
        return name, peft
    with open(config, encoding="utf-8") as file:
        base = json.load(file).get("base_model_name_or_path")
    if not base:
        raise ValueError(
            f"`{name}` is an adapter, and its `adapter_config.json` has no `base_model_name_or_path`: "
            f"set `pretrained` to the model and `peft={name}`"
        )
    logger.info("`%s` is an adapter for `%s`", name, base)
    return str(base), name


def _source(revision: str | None, gguf_file: str | None, subfolder: str) -> dict[str, Any]:
    """Return the arguments that locate files in a repository."""
    source: dict[str, Any] = {"revision": revision or "main"}
    if gguf_file:
        source["gguf_file"] = gguf_file
    if subfolder:
        source["subfolder"] = subfolder
    return source


def _dtype_argument() -> str:
    """Return the name of the data type argument, which `transformers` has renamed."""
    version = require("transformers", "`HFLM`").__version__.split(".")
    return "dtype" if (int(version[0]), int(version[1])) >= (4, 56) else "torch_dtype"
