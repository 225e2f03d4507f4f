"""A stand-in for SGLang: it records its arguments and serves answers that depend on nothing but the prompt."""
