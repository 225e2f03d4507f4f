"""The wire format between the engine and a worker: values encoded as JSON, in frames.

A frame is its length in eight bytes, big-endian, followed by that many bytes of UTF-8 JSON. A value that JSON cannot
represent is an object whose first key is `$`:

| value | `$` | `v` |
|---|---|---|
| tuple | `t` | the items |
| set | `s` | the items |
| bytes | `b` | hexadecimal digits |
| date | `D` | year, month, day |
| datetime | `T` | the seven fields, and seconds east of UTC or null |
| dictionary with keys other than strings, or with the key `$` | `d` | pairs of key and value |
| function | `f` | folder and reference |
| image or sound | `m` | kind, file in Base64, file name or null, declared mode or sampling rate or null |
"""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence, ValuesView
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple

# Relative, since the worker of the original package gives the modules another parent.
from . import _media

VERSION = 1

_LONGEST_HOLD = 0.05
"""How many seconds an answer may be queued, in addition to the duration of the next call."""

_PLAIN = (str, int, float, bool, type(None))


def _encoder() -> Callable[[Any], str]:
    """Return a JSON encoder, made once instead of once per message where possible."""
    plain = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
    try:
        from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]

        once = c_make_encoder(None, plain.default, encode_basestring, None, ":", ",", False, False, True)
        if "".join(once({"a": [1, 2.5, None, "é\n"]}, 0)) == '{"a":[1,2.5,null,"é\\n"]}':
            return lambda message: "".join(once(message, 0))
    except (ImportError, TypeError):
        pass
    return plain.encode


_dumps = _encoder()


class Unsendable(TypeError):
    """A value that cannot be sent to the engine."""


class Reference(NamedTuple):
    """An object, named by the reference under which a worker finds it."""

    directory: str
    reference: str


def to_wire(value: Any) -> Any:
    """Return the value in terms of JSON."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [item if type(item) in _PLAIN else to_wire(item) for item in value]
    if kind is dict:
        if "sampling_rate" in value and (file := _media.file_of(value)) is not None:
            return file.to_wire()
        wire = {}
        for key, item in value.items():
            if type(key) is not str or key == "$":
                return _pairs(value)
            wire[key] = item if type(item) in _PLAIN else to_wire(item)
        return wire
    if kind is tuple:
        return {"$": "t", "v": [to_wire(item) for item in value]}
    return _uncommon(value)


def _pairs(value: Mapping[Any, Any]) -> Any:
    return {"$": "d", "v": [[to_wire(key), to_wire(item)] for key, item in value.items()]}


_BARE: dict[type, Any] = {str: str.__str__, int: int.__int__, float: float.__float__}
"""Convert a value of a subclass to the class itself, whatever the subclass overrides."""


def _uncommon(value: Any) -> Any:
    if isinstance(value, Reference):
        return {"$": "f", "v": [value.directory, value.reference]}
    file = _media.file_of(value)
    if file is not None:
        return file.to_wire()
    if isinstance(value, bool):
        return bool(value)
    for kind, plain in _BARE.items():
        if isinstance(value, kind):
            return plain(value)
    if isinstance(value, Mapping):
        return to_wire(dict(value))
    if isinstance(value, tuple):
        return {"$": "t", "v": [to_wire(item) for item in value]}
    if isinstance(value, list):
        return [to_wire(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"$": "s", "v": [to_wire(item) for item in value]}
    if isinstance(value, (bytes, bytearray)):
        return {"$": "b", "v": bytes(value).hex()}
    if isinstance(value, datetime.datetime):
        offset = value.utcoffset()
        fields = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
        return {"$": "T", "v": [*fields, None if offset is None else int(offset.total_seconds())]}
    if isinstance(value, datetime.date):
        return {"$": "D", "v": [value.year, value.month, value.day]}
    if isinstance(value, (Decimal, datetime.time, datetime.timedelta)):
        return str(value)
    if isinstance(value, (Sequence, Iterator, KeysView, ValuesView)):
        return [to_wire(item) for item in value]
    # Numbers and arrays of numpy, torch and pandas, recognised without importing them.
    shape = getattr(value, "shape", None)
    if shape == () and hasattr(value, "item"):
        item = value.item()
        if item is not value:
            return to_wire(item)
    if hasattr(value, "tolist"):
        return to_wire(value.tolist())
    raise Unsendable(f"a value of type `{type(value).__name__}` cannot be sent to the engine")


def _from_wire(resolve: Callable[[str, str], Any]) -> Callable[[dict[str, Any]], Any]:
    def restore(wire: dict[str, Any]) -> Any:
        if "$" not in wire:
            return wire
        tag, value = wire["$"], wire["v"]
        if tag == "t":
            return tuple(value)
        if tag == "d":
            return {_key(key): item for key, item in value}
        if tag == "s":
            return {_key(item) for item in value}
        if tag == "b":
            return bytes.fromhex(value)
        if tag == "D":
            return datetime.date(*value)
        if tag == "T":
            *fields, offset = value
            zone = None if offset is None else datetime.timezone(datetime.timedelta(seconds=offset))
            return datetime.datetime(*fields).replace(tzinfo=zone)
        if tag == "f":
            return resolve(*value)
        if tag == "m":
            return _media.restore(*value)
        raise ValueError(f"unknown tag {tag!r}")

    return restore


def _key(value: Any) -> Any:
    """Return a value in hashable form."""
    return frozenset(value) if isinstance(value, set) else value


class Channel:
    """The worker's end of the pipe."""

    def __init__(self, descriptor: int, resolve: Callable[[str, str], Any]) -> None:
        self.descriptor = descriptor
        self._reader: BinaryIO = open(descriptor, "rb", buffering=1 << 16, closefd=False)  # noqa: SIM115
        self._held = bytearray()
        self._flushed = time.monotonic()
        self._decode = json.JSONDecoder(object_hook=_from_wire(resolve)).decode

    def read(self) -> Any:
        """Return the next message, or `None` when the engine has closed its end."""
        head = self._reader.read(8)
        if len(head) < 8:
            return None
        length = int.from_bytes(head, "big")
        body = self._reader.read(length)
        if len(body) < length:
            return None
        return self._decode(body.decode("utf-8"))

    def write(self, message: Any) -> None:
        """Send a JSON message, after those that are queued."""
        self.hold(message)
        self.flush()

    def hold(self, message: Any) -> None:
        """Queue a message: sending several at once costs little more than sending one."""
        body = _dumps(message).encode("utf-8")
        self._held += len(body).to_bytes(8, "big") + body
        if len(self._held) > 1 << 16 or time.monotonic() > self._flushed + _LONGEST_HOLD:
            self.flush()

    def flush(self) -> None:
        """Send the queued messages."""
        frames, self._held = memoryview(self._held), bytearray()
        while frames:
            frames = frames[os.write(self.descriptor, frames) :]
        self._flushed = time.monotonic()
