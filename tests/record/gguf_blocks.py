"""Record the codebooks of GGUF's block types, and blocks of all types with the numbers that they stand for.

The codebooks of the `IQ` types are constants of the format. They are read from the numbers that the `gguf` package gives for blocks with
each index, and written to `crates/lmeval-candle/src/weights/gguf/codebooks.bin`: 16 bits per entry, two bits per number of `IQ1` and `IQ2`
(the n-th smallest of three), four bits per number of `IQ3` (of eight). The blocks of `tests/data/gguf_blocks.json` are random bytes,
and normally distributed numbers quantised by llama.cpp; their numbers are those of the `gguf` package, or of llama.cpp for types that
the package cannot read.

    pip install gguf xllamacpp numpy
    python gguf_blocks.py
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import gguf
import numpy as np
import xllamacpp
from gguf import GGMLQuantizationType as Type

CRATE = Path(__file__).resolve().parents[2] / "crates/lmeval-candle"
# Types of llama.cpp that the package does not know, or cannot read.
OTHERS = {"Q8_K": 15, "Q1_0": 41, "Q2_0": 42}

library = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
library.ggml_type_size.restype = ctypes.c_size_t
library.ggml_blck_size.restype = ctypes.c_int64
library.ggml_quantize_chunk.restype = ctypes.c_size_t
library.ggml_quantize_chunk.argtypes = [
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    *[ctypes.c_int64] * 3,
    ctypes.c_void_p,
]


def sizes(kind: int) -> tuple[int, int]:
    """The numbers and the bytes of a block."""
    return library.ggml_blck_size(kind), library.ggml_type_size(kind)


def quantise(kind: int, numbers: np.ndarray) -> np.ndarray:
    """Blocks of these numbers, made by llama.cpp."""
    rows, width = numbers.shape
    count, size = sizes(kind)
    made = np.zeros((rows, width // count * size), np.uint8)
    numbers = np.ascontiguousarray(numbers, np.float32)
    importance = np.ones(width, np.float32)
    library.ggml_quantize_chunk(
        kind, numbers.ctypes.data, made.ctypes.data, 0, rows, width, importance.ctypes.data
    )
    return made


def read(name: str, kind: int, blocks: np.ndarray) -> np.ndarray:
    """The numbers of a row of blocks."""
    if name not in OTHERS:
        return gguf.quants.dequantize(blocks.reshape(1, -1), Type(kind)).reshape(-1).astype(np.float32)
    count, size = sizes(kind)
    numbers = np.zeros(blocks.size // size * count, np.float32)
    function = getattr(library, "dequantize_row_" + name.replace("Q", "q", 1))
    function(
        ctypes.c_void_p(blocks.ctypes.data), ctypes.c_void_p(numbers.ctypes.data), ctypes.c_int64(numbers.size)
    )
    return numbers


def codebook(name: str, entries: int, width: int, block) -> list[int]:
    """The entries of a codebook. `block` gives the bytes of a block whose numbers start with an entry."""
    found = np.array([read(name, Type[name].value, block(index))[:width] for index in range(entries)])
    levels = np.unique(found)
    bits = 16 // width
    assert len(levels) <= 1 << bits, levels
    codes = np.searchsorted(levels, found)
    return [int(sum(int(code) << (bits * place) for place, code in enumerate(row))) for row in codes]


def block(name: str, fields: dict[int, bytes]) -> np.ndarray:
    """A block of zeros with some bytes."""
    made = np.zeros(sizes(Type[name].value)[1], np.uint8)
    for start, content in fields.items():
        made[start : start + len(content)] = list(content)
    return made


def codebooks() -> None:
    one = np.float16(1).tobytes()
    low = lambda index: bytes([index & 255])
    books = [
        codebook("IQ2_XXS", 256, 8, lambda index: block("IQ2_XXS", {0: one, 2: low(index)})),
        codebook("IQ2_XS", 512, 8, lambda index: block("IQ2_XS", {0: one, 2: index.to_bytes(2, "little")})),
        codebook("IQ2_S", 1024, 8, lambda index: block("IQ2_S", {0: one, 2: low(index), 66: bytes([index >> 8])})),
        codebook("IQ3_XXS", 256, 4, lambda index: block("IQ3_XXS", {0: one, 2: low(index)})),
        codebook("IQ3_S", 512, 4, lambda index: block("IQ3_S", {0: one, 2: low(index), 66: bytes([index >> 8])})),
        codebook("IQ1_S", 2048, 8, lambda index: block("IQ1_S", {0: one, 2: low(index), 34: bytes([index >> 8])})),
    ]
    content = b"".join(np.array(book, "<u2").tobytes() for book in books)
    (CRATE / "src/weights/gguf/codebooks.bin").write_bytes(content)


def vectors() -> None:
    random = np.random.default_rng(1)
    recorded = {}
    for name, kind in {**{kind.name: kind.value for kind in gguf.quants._type_traits}, **OTHERS}.items():
        count, size = sizes(kind)
        if count == 1:
            continue
        rows = 256 // count
        made = [quantise(kind, random.normal(size=(1, 256)).astype(np.float32)).reshape(-1)] if name != "Q8_K" else []
        # Random scales may be infinite.
        while len(made) < 2:
            candidate = random.integers(0, 256, rows * size, dtype=np.uint8)
            numbers = read(name, kind, candidate)
            if np.isfinite(numbers).all() and np.abs(numbers).max() < 1e30:
                made.append(candidate)
        recorded[name] = {
            "kind": kind,
            "count": count,
            "size": size,
            "blocks": [blocks.tobytes().hex() for blocks in made],
            "numbers": [read(name, kind, blocks).astype("<f4").tobytes().hex() for blocks in made],
        }
    (CRATE / "tests/data/gguf_blocks.json").write_text(json.dumps(recorded) + "\n")


if __name__ == "__main__":
    codebooks()
    vectors()
