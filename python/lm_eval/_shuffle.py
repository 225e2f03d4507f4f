"""The order in which the library `datasets` shuffles rows: numpy's `default_rng(seed).permutation(length)`.

All arithmetic is on integers of fixed width, so the result is the same with and without numpy.
"""

from __future__ import annotations

from collections.abc import Iterator

_LOW32 = (1 << 32) - 1
_LOW64 = (1 << 64) - 1
_LOW128 = (1 << 128) - 1


def permutation(seed: int, length: int) -> list[int]:
    """Return the permutation of the integers below `length` for a seed."""
    words = _words(_seeded(seed))
    order = list(range(length))
    for last in range(length - 1, 0, -1):
        other = _up_to(words, last)
        order[last], order[other] = order[other], order[last]
    return order


def _up_to(words: Iterator[int], most: int) -> int:
    """Draw an integer of at most `most`, which is below 2**32."""
    mask = (1 << most.bit_length()) - 1
    return next(number for number in (word & mask for word in words) if number <= most)


def _words(state: list[int]) -> Iterator[int]:
    """Yield the output of PCG64, each number as its lower and then its upper half."""
    multiplier = 0x2360ED051FC65DA44385DF649FCCF645
    start, sequence = state[0] << 64 | state[1], state[2] << 64 | state[3]
    increment = (sequence << 1 | 1) & _LOW128
    current = (((increment + start) & _LOW128) * multiplier + increment) & _LOW128
    while True:
        current = (current * multiplier + increment) & _LOW128
        mixed = (current >> 64 ^ current) & _LOW64
        turn = current >> 122
        number = (mixed >> turn | mixed << (64 - turn)) & _LOW64
        yield number & _LOW32
        yield number >> 32


def _seeded(seed: int) -> list[int]:
    """Return the four 64-bit words of `SeedSequence(seed)`."""
    if seed < 0:
        raise ValueError("a seed must not be negative")
    entropy = [seed & _LOW32]
    while seed >> 32:
        seed >>= 32
        entropy.append(seed & _LOW32)
    constant = 0x43B0D7E5

    def hashed(value: int) -> int:
        nonlocal constant
        value ^= constant
        constant = constant * 0x931E8875 & _LOW32
        value = value * constant & _LOW32
        return value ^ value >> 16

    def mixed(left: int, right: int) -> int:
        value = (0xCA01F9DD * left - 0x4973F715 * right) & _LOW32
        return value ^ value >> 16

    pool = [hashed(entropy[index] if index < len(entropy) else 0) for index in range(4)]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in entropy[4:]:
        for target in range(4):
            pool[target] = mixed(pool[target], hashed(word))
    constant, words = 0x8B51F9DD, []
    for index in range(8):
        value = pool[index % 4] ^ constant
        constant = constant * 0x58F38DED & _LOW32
        value = value * constant & _LOW32
        words.append(value ^ value >> 16)
    return [words[index] | words[index + 1] << 32 for index in range(0, 8, 2)]
