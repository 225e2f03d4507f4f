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
    "`{}` is set, but the configuration of `{}` has no `quantization_config`, so its weights are not quantised: "
    "omit the argument, or load the model yourself and pass it as `pretrained`"
)

_BITSANDBYTES = ("bnb_", "llm_int8_")
"""Beginnings of the names of settings of `BitsAndBytesConfig`."""

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
    _adapter_revision: str | None = None

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
            if value and not getattr(self._config, "quantization_config", None):
                raise NotImplementedError(_QUANTISED.format(name, pretrained))
            if value:
                logger.debug("`%s` has no effect: `transformers` reads quantised checkpoints itself", name)
        if peft and delta:
            raise ValueError("`peft` and `delta` cannot be combined")
        # An older name of `dtype`.
        older = kwargs.pop("torch_dtype", None)
        dtype = older if older is not None and dtype in (None, "auto") else dtype
        of_bits = _bitsandbytes(kwargs, quantization_config)
        distributed = self._get_accelerate_args(
            parallelize and not tp_plan,
            device_map=kwargs.get("device_map") or "auto",
            max_memory_per_gpu=max_memory_per_gpu,
            max_cpu_memory=max_cpu_memory,
            offload_folder=offload_folder,
            gpus=gpus,
        )
        options = {
            **_source(revision, gguf_file, subfolder),
            "trust_remote_code": trust_remote_code,
            **distributed,
            **{name: value for name, value in kwargs.items() if name != "device_map" or not distributed},
        }
        if of_bits is not None:
            options["quantization_config"] = of_bits
            if self._device is not None:
                # Quantised weights cannot be moved later.
                options["device_map"] = options.get("device_map") or {"": str(self._device)}
        if tp_plan:
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
        options = {} if self._adapter_revision is None else {"revision": self._adapter_revision}
        wanted = _embedding_rows(self._model, peft.load_peft_weights(name, device="cpu", **options))
        if wanted not in (None, rows):
            logger.info("Resizing the embeddings from %d to %d rows for the adapter", rows, wanted)
            self._model.resize_token_embeddings(wanted)
        self._model = peft.PeftModel.from_pretrained(self._model, name, **options)

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
                "GPUs: start the command without the launcher, or omit `parallelize` and `device_map`"
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


class Adapted(NamedTuple):
    """A model and its adapter, with their revisions."""

    model: str
    revision: str | None
    adapter: str | None
    adapter_revision: str | None = None


def split_adapter(name: str, peft: str | None, revision: str | None) -> Adapted:
    """Return the model and the adapter for a folder or hub name that has only an adapter, which names its model."""
    given = Adapted(name, revision, peft)
    path = None if peft else _adapter_config(name, revision)
    if path is None:
        return given
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    base = config.get("base_model_name_or_path")
    if not base:
        raise ValueError(
            f"`{name}` is an adapter, and its `adapter_config.json` has no `base_model_name_or_path`: "
            f"set `pretrained` to the model and `peft={name}`"
        )
    logger.info("`%s` is an adapter for `%s`", name, base)
    of_hub = None if os.path.isdir(name) or revision in (None, "main") else revision
    return Adapted(str(base), config.get("revision") or "main", name, of_hub)


def _adapter_config(name: str, revision: str | None) -> str | None:
    """Return the path of an adapter's configuration, or `None` for a model."""
    if os.path.exists(name):
        path = os.path.join(name, "adapter_config.json")
        is_model = os.path.isfile(os.path.join(name, "config.json"))
        return path if os.path.isfile(path) and not is_model else None
    from transformers.utils import cached_file

    # Other failures are reported when the configuration is read.
    quiet = {
        "revision": revision or "main",
        "_raise_exceptions_for_missing_entries": False,
        "_raise_exceptions_for_connection_errors": False,
        "_raise_exceptions_for_gated_repo": False,
    }
    try:
        if cached_file(name, "config.json", **quiet) is not None:
            return None
        found: str | None = cached_file(name, "adapter_config.json", **quiet)
    except (OSError, ValueError):
        return None
    return found


def engine_of(name: str | None) -> None:
    """Refuse an engine other than torch, which `auto` is in each process of a launcher."""
    if name in (None, "torch", "auto"):
        return
    launch = Launch.of_environment()
    if name == "native" and launch.size > 1:
        raise ValueError(
            f"`engine=native` does not run in the {launch.size} processes of a launcher: start `lm-eval` without it, "
            f"with `--model_args data_parallel={launch.size}`, or omit `engine`"
        )
    raise ValueError(f'`HFLM` runs on torch, not on `engine="{name}"`: `backend="native"` uses the native engine')


def drop_native(arguments: dict[str, Any]) -> None:
    """Remove arguments of the native engine: the run seeds torch, and a launcher starts several processes."""
    arguments.pop("seed", None)
    count = int(arguments.pop("data_parallel", None) or 1)
    if count > 1:
        raise ValueError(
            f"`data_parallel={count}` is for the native engine. On torch, start the command with "
            f"`accelerate launch --num_processes {count} -m lm_eval …` and omit the argument"
        )


def refuse_tensor_parallel(pretrained: Any) -> None:
    """Raise for `tp_plan`: all processes of a launcher would have to compute every request together."""
    raise NotImplementedError(
        "`tp_plan` is not supported: use `--model vllm --model_args "
        f"pretrained={pretrained},tensor_parallel_size=N`, or `parallelize=True` to spread the layers over the GPUs"
    )


def _bitsandbytes(arguments: dict[str, Any], other: Any) -> Any:
    """Remove the settings of bitsandbytes from the arguments; return its configuration, or `None` if they are off."""
    names = [name for name in arguments if name in ("load_in_8bit", "load_in_4bit") or name.startswith(_BITSANDBYTES)]
    given = {name: arguments.pop(name) for name in names}
    given = {name: value for name, value in given.items() if value is not None and value is not False}
    if not (given.get("load_in_8bit") or given.get("load_in_4bit")):
        if given:
            logger.warning("Without `load_in_8bit` or `load_in_4bit`, `%s` has no effect", "`, `".join(given))
        return None
    if other is not None:
        raise ValueError("`quantization_config` cannot be combined with `load_in_8bit` and `load_in_4bit`")
    if given.get("bnb_4bit_compute_dtype") is not None:
        given["bnb_4bit_compute_dtype"] = get_dtype(given["bnb_4bit_compute_dtype"])
    return require("transformers", "`HFLM`").BitsAndBytesConfig(**given)


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
