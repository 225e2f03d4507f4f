"""The command line of SGLang's server, as far as tests use it."""

from __future__ import annotations

import argparse

import standin_server


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="launch_server.py")
    for name in ["model-path", "tokenizer-path", "dtype", "kv-cache-dtype", "host", "api-key", "revision"]:
        parser.add_argument(f"--{name}")
    parser.add_argument("--tp-size", "--tensor-parallel-size", type=int)
    for name in ["port", "context-length", "dp-size", "chunked-prefill-size"]:
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--mem-fraction-static", type=float)
    for name in ["trust-remote-code", "disable-radix-cache"]:
        parser.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    standin_server.serve(
        model=arguments.model_path,
        max_length=arguments.context_length,
        port=arguments.port,
        key=arguments.api_key,
        owner="sglang",
    )


if __name__ == "__main__":
    main()
