"""Digests of a model and its tokenizer: models that differ in a single weight have different digests."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger(__name__)

_CHUNK = 1 << 26
"""How many elements are copied to the CPU at once."""


def state_of(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return digests of the structure, configuration and weights of a model, and of a tokenizer."""
    return {
        "model": f"{type(model).__module__}.{type(model).__qualname__}",
        "structure": _hash(repr(model)) if hasattr(model, "named_modules") else None,
        **settings_of(model, tokenizer),
        "adapters": _adapters(model),
        "weights": _weights(model),
    }


def settings_of(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return digests of the configuration of a model, and of a tokenizer."""
    return {
        "config": _hash(_settings(getattr(model, "config", None))),
        "generation_config": _hash(_settings(getattr(model, "generation_config", None))),
        "tokenizer": _tokenizer(tokenizer),
    }


def files_of(name: str, revision: str | None = None, subfolder: str = "") -> str:
    """Return what identifies a checkpoint or adapter: its commit on the hub, else a digest of its weights and code.

    The digest is of names, sizes and times; small files are read.
    """
    if os.path.isfile(name):
        paths = [name]
    elif os.path.isdir(name):
        folder = os.path.join(name, subfolder)
        paths = [os.path.join(folder, file) for file in sorted(os.listdir(folder)) if _is_of_model(file)]
    else:
        return _commit(name, revision, subfolder) or "unknown"
    digest = hashlib.sha256()
    for path in paths:
        status = os.stat(path)
        digest.update(f"{os.path.basename(path)} {status.st_size};".encode("utf-8", "surrogateescape"))
        if path.endswith(_READ):
            with open(path, "rb") as file:
                digest.update(file.read())
        else:
            digest.update(str(status.st_mtime_ns).encode())
    return digest.hexdigest()


def _is_of_model(file: str) -> bool:
    """Whether a file has weights or code of a model, not the state of its training."""
    return file.endswith((*_READ, *_WEIGHTS)) and not file.startswith(("optimizer", "scheduler", "rng_state", "training_args"))


def _commit(name: str, revision: str | None, subfolder: str) -> str | None:
    """Return the commit of a repository's files in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    for file in ("config.json", "adapter_config.json"):
        path = try_to_load_from_cache(name, f"{subfolder}/{file}" if subfolder else file, revision=revision or "main")
        if isinstance(path, str):
            return path.replace(os.sep, "/").rpartition("/snapshots/")[2].partition("/")[0]
    return None


_READ = (".py", "adapter_config.json", ".index.json")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _settings(config: Any) -> str:
    """Return a configuration as a string, without the path it was loaded from."""
    try:
        values = config.to_dict() if hasattr(config, "to_dict") else {}
    except (TypeError, ValueError, AttributeError):
        return type(config).__qualname__
    values = {name: value for name, value in values.items() if name not in ("_name_or_path", "transformers_version")}
    return json.dumps(values, sort_keys=True, default=lambda value: type(value).__qualname__)


def _adapters(model: Any) -> list[Any]:
    """Return the active adapters: disabling one changes no weight."""
    found = []
    for name, module in model.named_modules() if hasattr(model, "named_modules") else ():
        if hasattr(module, "active_adapters") and hasattr(module, "scaling"):
            is_off = bool(getattr(module, "disable_adapters", False))
            found.append([name, str(module.active_adapters), is_off, str(module.scaling)])
    return found


def _weights(model: Any) -> str | None:
    """Return a digest of all parameters and persistent buffers, on whichever device."""
    if not hasattr(model, "state_dict"):
        return None
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        digest.update(f"{name} {getattr(local, 'shape', '')} {getattr(local, 'dtype', '')};".encode())
        try:
            for part in _bytes(local):
                digest.update(part)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            # Recomputing is better than reusing answers of a different model.
            logger.warning("Cannot read the weights `%s` (%s): cached answers are not reused", name, error)
            return uuid.uuid4().hex
    return digest.hexdigest()


def _bytes(tensor: Any) -> Iterator[Any]:
    import torch

    if not isinstance(tensor, torch.Tensor):
        yield repr(tensor).encode()
        return
    if tensor.is_meta:
        # These weights are on disk and loaded for each call; their names and shapes must do.
        return
    flat = tensor.detach().reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        part = flat[start : start + _CHUNK].cpu().contiguous()
        yield memoryview(part.view(torch.uint8).numpy())


def _tokenizer(tokenizer: Any) -> str | None:
    """Return a digest of the tokenizer."""
    if tokenizer is None:
        return None
    parts = [type(tokenizer).__qualname__]
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if hasattr(backend, "to_str"):
        # Calls leave their padding and truncation settings in here.
        parts.append(json.dumps({**json.loads(backend.to_str()), "padding": None, "truncation": None}))
    elif hasattr(tokenizer, "get_vocab"):
        parts.append(json.dumps(sorted(tokenizer.get_vocab().items(), key=str), default=str))
    for name in ("special_tokens_map", "add_bos_token", "add_eos_token", "add_prefix_space"):
        parts.append(str(getattr(tokenizer, name, None)))
    return _hash("\n".join(parts))
