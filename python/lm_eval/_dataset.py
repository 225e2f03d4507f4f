"""Splits as the functions of tasks get them.

Where the library `datasets` is installed they are its `Dataset`; elsewhere a class of ours has the methods that tasks
use, and stands in for the library when a task imports it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lm_eval._shuffle import permutation

Row = dict[str, Any]


def make(rows: list[Row], columns: list[str]) -> Any:
    """A split of these documents."""
    library = _library()
    if library is not None:
        try:
            if rows:
                return library.Dataset.from_list(rows)
            return library.Dataset.from_dict({name: [] for name in columns})
        except Exception:  # noqa: BLE001
            # Values that Arrow has no type for.
            return Dataset(rows, columns)
    return Dataset(rows, columns)


def documents(split: Any) -> dict[str, Any]:
    """The documents of whatever a function gave for a split, and the names of their columns."""
    if split is None or isinstance(split, (str, bytes, Mapping)) or not isinstance(split, Iterable):
        raise TypeError(f"expected documents, found a value of type `{type(split).__name__}`")
    rows = _plain_rows(split)
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"expected documents that are dictionaries, found a value of type `{type(row).__name__}`")
    columns = getattr(split, "column_names", None)
    if not isinstance(columns, list):
        columns = [name for name in rows[0] if isinstance(name, str)] if rows else []
    return {"columns": columns, "documents": rows}


def _plain_rows(split: Any) -> list[Any]:
    """All rows, in one go where nothing has to be decoded."""
    features = getattr(split, "features", None)
    if type(split).__module__.startswith("datasets.") and features is not None and hasattr(split, "to_list"):
        decoded = any(name in str(features) for name in ("Image(", "Audio(", "Video(", "Pdf("))
        if not decoded and split.format["type"] is None:
            return split.to_list()
    return list(split)


def _library() -> Any:
    """The library `datasets`, unless it is not installed."""
    try:
        import datasets
    except ImportError:
        return None
    return None if getattr(datasets, "__lm_eval__", False) else datasets


class Value:
    """The type of a column."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Value({self.dtype!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", bytes: "binary", type(None): "null"}


def _feature(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _feature(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_feature(value[0])] if value else [Value("null")]
    return Value(_TYPES.get(type(value), type(value).__name__))


def _stored(value: Any) -> Any:
    """A value as it comes back from a data set: tuples are lists."""
    if isinstance(value, (list, tuple)):
        return [_stored(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _stored(item) for name, item in value.items()}
    return value


def _listed(names: str | Iterable[str] | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


class Dataset:
    """Rows with named columns; every method gives a new data set."""

    def __init__(self, rows: Iterable[Row], columns: list[str] | None = None) -> None:
        self._rows = list(rows)
        if columns is None:
            columns = list(dict.fromkeys(name for row in self._rows for name in row))
        self._columns = columns

    @classmethod
    def from_list(cls, mapping: list[Row], **_: Any) -> Dataset:
        """A data set of rows."""
        return cls._of([_stored(row) for row in mapping])

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Iterable[Any]], **_: Any) -> Dataset:
        """A data set of columns."""
        names = list(mapping)
        columns = [list(mapping[name]) for name in names]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("the columns differ in length")
        rows = [dict(zip(names, map(_stored, values))) for values in zip(*columns)]
        return cls(rows, names)

    @classmethod
    def from_generator(cls, generator: Callable[..., Iterable[Row]], gen_kwargs: Any = None, **_: Any) -> Dataset:
        """A data set of the rows that a generator gives."""
        return cls.from_list(list(generator(**(gen_kwargs or {}))))

    @classmethod
    def _of(cls, rows: list[Row], known: Iterable[str] = ()) -> Dataset:
        """Rows of which each has all columns."""
        columns = list(dict.fromkeys(name for row in rows for name in row)) if rows else list(known)
        if any(len(row) != len(columns) for row in rows):
            rows = [{name: row.get(name) for name in columns} for row in rows]
        return cls(rows, columns)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    @property
    def features(self) -> dict[str, Any]:
        """The types of the columns, by the first value of each that is not None."""

        def kind(name: str) -> Any:
            return _feature(next((row[name] for row in self._rows if row.get(name) is not None), None))

        return {name: kind(name) for name in self._columns}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        return len(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self._rows), len(self._columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return (dict(row) for row in self._rows)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(f"column {key!r} is not there; there are {self._columns}")
            return [row.get(key) for row in self._rows]
        if isinstance(key, slice):
            return Dataset(self._rows[key], self._columns).to_dict()
        if isinstance(key, Iterable):
            return self.select(key).to_dict()
        return dict(self._rows[key])

    def __repr__(self) -> str:
        return f"Dataset({{\n    features: {self._columns},\n    num_rows: {len(self._rows)}\n}})"

    def map(
        self,
        function: Callable[..., Any],
        with_indices: bool = False,
        with_rank: bool = False,
        input_columns: str | list[str] | None = None,
        batched: bool = False,
        batch_size: int | None = 1000,
        drop_last_batch: bool = False,
        remove_columns: str | list[str] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        **_: Any,
    ) -> Dataset:
        """The data set with what the function gives for each row, or each batch of rows."""
        if with_rank or drop_last_batch:
            raise TypeError("`with_rank` and `drop_last_batch` need the library `datasets`")
        dropped = set(_listed(remove_columns))
        call = self._caller(function, with_indices, input_columns, fn_kwargs)
        if not batched:
            made = []
            for index, row in enumerate(self._rows):
                given = dict(row)
                result = call(given, index)
                kept = {} if result is given else {name: row[name] for name in row if name not in dropped}
                if result is given:
                    result = {name: item for name, item in result.items() if name not in dropped}
                made.append({**kept, **_stored(result or {})})
            return Dataset._of(made, [name for name in self._columns if name not in dropped])
        size = batch_size if batch_size and batch_size > 0 else max(len(self._rows), 1)
        made = []
        for start in range(0, len(self._rows), size):
            batch = self[start : start + size]
            kept = {name: column for name, column in batch.items() if name not in dropped}
            indices = list(range(start, min(start + size, len(self._rows))))
            columns = {**kept, **(call(batch, indices) or {})}
            made.extend(Dataset.from_dict(columns)._rows)
        return Dataset._of(made, [name for name in self._columns if name not in dropped])

    def filter(
        self,
        function: Callable[..., Any],
        with_indices: bool = False,
        input_columns: str | list[str] | None = None,
        batched: bool = False,
        fn_kwargs: dict[str, Any] | None = None,
        **_: Any,
    ) -> Dataset:
        """The rows for which the function gives something true."""
        call = self._caller(function, with_indices, input_columns, fn_kwargs)
        if batched:
            kept = list(call(self.to_dict(), list(range(len(self._rows)))))
        else:
            kept = [call(dict(row), index) for index, row in enumerate(self._rows)]
        return Dataset([row for row, keep in zip(self._rows, kept) if keep], self._columns)

    @staticmethod
    def _caller(
        function: Callable[..., Any],
        with_indices: bool,
        input_columns: str | list[str] | None,
        fn_kwargs: dict[str, Any] | None,
    ) -> Callable[[Any, Any], Any]:
        names, kwargs = _listed(input_columns), fn_kwargs or {}

        def call(given: Any, index: Any) -> Any:
            arguments = [given[name] for name in names] if input_columns is not None else [given]
            return function(*arguments, *([index] if with_indices else []), **kwargs)

        return call

    def select(self, indices: Iterable[int], **_: Any) -> Dataset:
        """The rows at these positions."""
        return Dataset([self._rows[index] for index in indices], self._columns)

    def shuffle(self, seed: int | None = None, **_: Any) -> Dataset:
        """The rows in the order that the library `datasets` gives them for the seed."""
        if seed is None:
            raise ValueError("shuffling without a seed needs the library `datasets`: give a seed")
        return self.select(permutation(seed, len(self._rows)))

    def sort(self, column_names: str | list[str], reverse: bool = False, **_: Any) -> Dataset:
        """The rows, sorted by columns."""
        names = _listed(column_names)
        return Dataset(sorted(self._rows, key=lambda row: [row[n] for n in names], reverse=reverse), self._columns)

    def take(self, n: int) -> Dataset:
        """The first rows."""
        return Dataset(self._rows[:n], self._columns)

    def skip(self, n: int) -> Dataset:
        """All but the first rows."""
        return Dataset(self._rows[n:], self._columns)

    def _check(self, names: Iterable[str]) -> None:
        absent = [name for name in names if name not in self._columns]
        if absent:
            raise ValueError(f"columns {absent} are not there; there are {self._columns}")

    def rename_column(self, original_column_name: str, new_column_name: str, **_: Any) -> Dataset:
        """The data set with another name for a column."""
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self, column_mapping: Mapping[str, str], **_: Any) -> Dataset:
        """The data set with other names for columns."""
        self._check(column_mapping)
        columns = [column_mapping.get(name, name) for name in self._columns]
        if len(set(columns)) < len(columns):
            raise ValueError(f"two columns would have the same name: {columns}")
        rows = [{column_mapping.get(name, name): item for name, item in row.items()} for row in self._rows]
        return Dataset(rows, columns)

    def remove_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """The data set without columns."""
        dropped = _listed(column_names)
        self._check(dropped)
        return self.select_columns([name for name in self._columns if name not in dropped])

    def select_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """The data set with these columns alone."""
        names = _listed(column_names)
        self._check(names)
        return Dataset([{name: row.get(name) for name in names} for row in self._rows], names)

    def add_column(self, name: str, column: Iterable[Any], *_: Any, **__: Any) -> Dataset:
        """The data set with one more column."""
        values = list(column)
        if name in self._columns:
            raise ValueError(f"there is a column {name!r} already")
        if len(values) != len(self._rows):
            raise ValueError(f"the column has {len(values)} values, and there are {len(self._rows)} rows")
        rows = [{**row, name: _stored(value)} for row, value in zip(self._rows, values)]
        return Dataset(rows, [*self._columns, name])

    def add_item(self, item: Row, **_: Any) -> Dataset:
        """The data set with one more row."""
        return Dataset._of([*self._rows, _stored(item)], self._columns)

    def unique(self, column: str) -> list[Any]:
        """The different values of a column."""
        return list(dict.fromkeys(self[column]))

    def flatten_indices(self, **_: Any) -> Dataset:
        """The data set itself."""
        return self

    def to_list(self) -> list[Row]:
        """The rows."""
        return list(self)

    def to_dict(self, **_: Any) -> dict[str, list[Any]]:
        """The columns."""
        return {name: self[name] for name in self._columns}

    def to_pandas(self, **_: Any) -> Any:
        """The rows as a data frame."""
        from pandas import DataFrame

        return DataFrame(self.to_dict(), columns=self._columns)

    @classmethod
    def from_pandas(cls, df: Any, **_: Any) -> Dataset:
        """A data set of the rows of a data frame."""
        return cls.from_list(df.to_dict("records"))


class DatasetDict(dict):  # type: ignore[type-arg]
    """Splits by name."""

    def map(self, function: Callable[..., Any], **options: Any) -> DatasetDict:
        """Every split with what the function gives."""
        return DatasetDict({name: split.map(function, **options) for name, split in self.items()})

    def filter(self, function: Callable[..., Any], **options: Any) -> DatasetDict:
        """Every split with the rows for which the function gives something true."""
        return DatasetDict({name: split.filter(function, **options) for name, split in self.items()})


def concatenate_datasets(dsets: Iterable[Dataset], **_: Any) -> Dataset:
    """One data set after the other."""
    return Dataset._of([row for split in dsets for row in split])


def _needs_library(name: str) -> Callable[..., Any]:
    def missing(*_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError(f"`datasets.{name}` needs the package `datasets`", name="datasets")

    return missing


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `datasets` where nothing else does."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == "datasets" else None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(
            __lm_eval__=True,
            Dataset=Dataset,
            DatasetDict=DatasetDict,
            Value=Value,
            concatenate_datasets=concatenate_datasets,
            load_dataset=_needs_library("load_dataset"),
            load_from_disk=_needs_library("load_from_disk"),
        )


def stand_in() -> None:
    """Lets tasks import `datasets` where it is not installed."""
    sys.meta_path.append(_StandIn())
