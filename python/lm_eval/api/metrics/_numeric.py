"""Arithmetic that gives the same digits on every Python version, with and without numpy."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, reduce
from typing import Any


class Vector(list[float]):
    """A list of numbers with the arithmetic of a one-dimensional numpy array.

    It replaces an array where numpy is not installed.
    """

    def _combined(self, other: Any, operation: Callable[[float, float], float]) -> Vector:
        if isinstance(other, (list, tuple)):
            if len(other) != len(self):
                raise ValueError(f"Cannot combine {len(self)} numbers with {len(other)}")
            return Vector(operation(left, right) for left, right in zip(self, other))
        return Vector(operation(left, other) for left in self)

    def __add__(self, other: Any) -> Vector:  # type: ignore[override]
        return self._combined(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Vector:
        return self._combined(other, operator.sub)

    def __rsub__(self, other: Any) -> Vector:
        return (-self) + other

    def __mul__(self, other: Any) -> Vector:
        return self._combined(other, operator.mul)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Vector:
        return self._combined(other, divide)

    def __neg__(self) -> Vector:
        return Vector(-value for value in self)

    def argmax(self) -> int:
        """Return the index of the first maximum, or of the first NaN."""
        return argmax(self)

    def max(self) -> float:
        """Return the maximum, or NaN if any element is NaN."""
        return self[argmax(self)]

    def sum(self) -> float:
        """Return the sum, in numpy's summation order."""
        return pairwise_sum(self)

    def mean(self) -> float:
        """Return the mean, in numpy's summation order."""
        return divide(pairwise_sum(self), len(self))

    def tolist(self) -> list[float]:
        """Return a plain list."""
        return list(self)


@cache
def _numpy() -> Any:
    """Return numpy, or `None` where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def array(values: Iterable[float]) -> Any:
    """Return a numpy array, or a `Vector` where numpy is not installed."""
    numbers = [float(value) for value in values]
    numpy = _numpy()
    return Vector(numbers) if numpy is None else numpy.array(numbers, dtype=numpy.float64)


def floats(values: Iterable[Any]) -> list[float]:
    """Return plain floats, whatever the type of the sequence."""
    return [float(value) for value in values]


def plain_sum(values: Iterable[Any]) -> Any:
    """Return the sum, added from left to right."""
    # Since 3.12 the built-in `sum` compensates rounding errors, which changes digits.
    if sys.version_info < (3, 12):
        return sum(values)
    return reduce(operator.add, values, 0)


def pairwise_sum(values: Sequence[float]) -> float:
    """Return the sum in the order of numpy's pairwise summation."""
    count = len(values)
    if count < 8:
        return reduce(operator.add, values, 0.0) if count else 0.0
    if count <= 128:
        lanes = [float(value) for value in values[:8]]
        whole = count - count % 8
        for start in range(8, whole, 8):
            for lane in range(8):
                lanes[lane] += values[start + lane]
        total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + (
            (lanes[4] + lanes[5]) + (lanes[6] + lanes[7])
        )
        return reduce(operator.add, values[whole:], total)
    half = count // 2
    half -= half % 8
    return pairwise_sum(values[:half]) + pairwise_sum(values[half:])


def divide(left: float, right: float) -> float:
    """Divide by the rules of IEEE 754: division by zero gives infinity or NaN."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def exp(value: float) -> float:
    """Return e to the power of the value; an overflow gives infinity."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def argmax(values: Sequence[float]) -> int:
    """Return the index of the first maximum, or of the first NaN."""
    if not len(values):
        raise ValueError("The maximum of an empty sequence is undefined")
    best = 0
    for position, value in enumerate(values):
        if math.isnan(value):
            return position
        if value > values[best]:
            best = position
    return best


def log_add_exp(values: Sequence[float]) -> float:
    """Return ln Σ exp, folded from left to right."""
    return reduce(_log_add_exp_pair, values)


def _log_add_exp_pair(left: float, right: float) -> float:
    if left == right:
        return left + math.log(2)
    difference = left - right
    if difference > 0:
        return left + math.log1p(exp(-difference))
    if difference <= 0:
        return right + math.log1p(exp(difference))
    return difference


def softmax(values: Sequence[float]) -> list[float]:
    """Return the softmax of log-likelihoods."""
    highest = values[argmax(values)]
    powers = [exp(value - highest) for value in values]
    total = pairwise_sum(powers)
    return [divide(power, total) for power in powers]
