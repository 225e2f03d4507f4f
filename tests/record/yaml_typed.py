"""PyYAML values in the typed form: one line of JSON that keeps every difference of type.

The form is defined in crates/lmeval-pycompat/tests/it/yaml_typed.rs, which writes the same text:

    None, bool, int     null, true or false, the decimal digits
    float               {"float":"<16 hexadecimal digits of the IEEE 754 bits>"}, or {"float":"nan"}
    str                 a JSON string with everything outside printable ASCII escaped
    bytes               {"bytes":"<hexadecimal>"}
    list                [item,item]
    tuple               {"tuple":[item,item]}
    set                 {"set":[item,item]}, sorted by the items' own forms
    dict                {"dict":[[key,value],[key,value]]} in order
    date, datetime      {"date":"2001-12-14"}, {"datetime":"2001-12-14 21:59:43+00:00"}, as str() writes them
    !function           {"function":"utils.process_docs"}

A value that contains itself has no form: `typed` raises ValueError, as the Rust loader fails on it.
"""

import datetime
import json
import math
import struct
import sys
from dataclasses import dataclass

import yaml

sys.set_int_max_str_digits(0)
LOADING_DIGITS = 4300


@dataclass(frozen=True)
class Function:
    """The argument of a `!function` tag."""

    reference: str


class Loader(yaml.CSafeLoader):
    """The loader of the reference harness, with `!function` kept as a string."""


Loader.add_constructor("!function", lambda loader, node: Function(loader.construct_scalar(node)))


def load(source, loader=Loader):
    """Load a document (str or bytes) under CPython's default limit on decimal digits."""
    sys.set_int_max_str_digits(LOADING_DIGITS)
    try:
        return yaml.load(source, Loader=loader)
    finally:
        sys.set_int_max_str_digits(0)


def typed(value, _open=()):
    """Return the typed form of a value."""
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value)
    if isinstance(value, float):
        bits = "nan" if math.isnan(value) else struct.pack(">d", value).hex()
        return f'{{"float":"{bits}"}}'
    if isinstance(value, bytes):
        return f'{{"bytes":"{value.hex()}"}}'
    if isinstance(value, datetime.datetime):
        return f'{{"datetime":"{value}"}}'
    if isinstance(value, datetime.date):
        return f'{{"date":"{value}"}}'
    if isinstance(value, Function):
        return f'{{"function":{json.dumps(value.reference)}}}'
    if id(value) in _open:
        raise ValueError("the value contains itself")
    inner = (*_open, id(value))
    if isinstance(value, list):
        return "[" + ",".join(typed(item, inner) for item in value) + "]"
    if isinstance(value, tuple):
        return '{"tuple":[' + ",".join(typed(item, inner) for item in value) + "]}"
    if isinstance(value, set):
        return '{"set":[' + ",".join(sorted(typed(item, inner) for item in value)) + "]}"
    if isinstance(value, dict):
        entries = (f"[{typed(key, inner)},{typed(item, inner)}]" for key, item in value.items())
        return '{"dict":[' + ",".join(entries) + "]}"
    raise TypeError(f"no typed form for {type(value).__name__}")


def load_typed(source, loader=Loader):
    """Return the typed form of a document, or None if it does not load."""
    try:
        return typed(load(source, loader))
    except Exception:
        return None
