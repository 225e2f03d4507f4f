"""The command line of vLLM's server, as far as tests use it."""

from __future__ import annotations

import argparse

import standin_server

VALUES = [
    "model",
    "revision",
    "dtype",
    "tokenizer",
    "tokenizer-mode",
    "tokenizer-revision",
    "quantization",
    "kv-cache-dtype",
    "generation-config",
    "served-model-name",
    "limit-mm-per-prompt",
    "compilation-config",
    "distributed-executor-backend",
    "host",
    "uds",
]
NUMBERS = [
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "max-model-len",
    "max-num-seqs",
    "max-num-batched-tokens",
    "max-lora-rank",
    "seed",
    "port",
]
SWITCHES = [
    "trust-remote-code",
    "enforce-eager",
    "enable-prefix-caching",
    "enable-chunked-prefill",
    "enable-expert-parallel",
    "allow-deprecated-quantization",
    "enable-lora",
    "enable_scale_out".replace("_", "-"),
    "disable_uvicorn_access_log".replace("_", "-"),
]


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="api_server.py", add_help=False)
    parser.add_argument("--help", nargs="?", const="some")
    for name in VALUES:
        parser.add_argument(f"--{name}")
    for name in NUMBERS:
        parser.add_argument(f"--{name}", type=int)
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
    parser.add_argument("--gpu-memory-utilization", type=float)
    parser.add_argument("--only-on", action="store_true")
    parser.add_argument("--cudagraph-capture-sizes", type=int, nargs="+")
    parser.add_argument("--lora-modules", nargs="+")
    parser.add_argument("--api-key", nargs="+")
    arguments = parser.parse_args()
    if arguments.help:
        parser.print_help()
        return
    standin_server.serve(
        model=arguments.model,
        max_length=arguments.max_model_len,
        socket_path=arguments.uds,
        port=arguments.port,
        key_variable="VLLM_API_KEY",
        key=(arguments.api_key or [None])[0],
        owner="vllm",
        adapters=[module.partition("=")[0] for module in arguments.lora_modules or []],
    )


if __name__ == "__main__":
    main()
