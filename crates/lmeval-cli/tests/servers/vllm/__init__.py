"""A stand-in for vLLM: it records its arguments and serves answers that depend on nothing but the prompt."""
