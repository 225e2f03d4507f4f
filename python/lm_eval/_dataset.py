"""Dataset splits as task functions receive them.

Where the library `datasets` is installed they are its `Dataset`; otherwise a class of ours has the methods that tasks
use, and replaces the library when a task imports it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lm_eval import _media
from lm_eval._shuffle import permutation

Row = dict[str, Any]


def make(rows: list[Row], columns: list[str], features: Mapping[str, Any] | None = None) -> Any:
    """Return a split of these documents; column types are given as far as they are known."""
    library = _library()
    if library is not None:
        media = {name: feature for name, feature in (features or {}).items() if _has_media(feature)}
        try:
            stored = [{**row, **{name: _media.stored(row.get(name)) for name in media}} for row in rows]
            split = library.Dataset.from_list(stored) if rows else library.Dataset.from_dict({name: [] for name in columns})
            if media:
                given = library.Features.from_dict(media)
                split = split.cast(library.Features({**split.features, **given}))
        except Exception:  # noqa: BLE001
            # Arrow has no type for these values.
            return Dataset(rows, columns, _labels(features))
        return _with_labels(split, _labels(features), library)
    return Dataset(rows, columns, _labels(features))


def _has_media(feature: Any) -> bool:
    """Whether a column has images or sounds."""
    if isinstance(feature, Mapping):
        return feature.get("_type") in ("Image", "Audio") or any(_has_media(inner) for inner in feature.values())
    return False


def _labels(features: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the label columns; all other types can be inferred from the values."""
    return {
        name: label for name, feature in (features or {}).items() if (label := _label(feature)) is not None
    }


def _label(feature: Any) -> Any:
    if not isinstance(feature, Mapping):
        return None
    if feature.get("_type") == "ClassLabel":
        return ClassLabel(names=list(feature["names"]))
    if feature.get("_type") in ("List", "Sequence"):
        inner = _label(feature.get("feature"))
        return None if inner is None else Sequence(inner)
    return None


def _with_labels(split: Any, labels: dict[str, Any], library: Any) -> Any:
    """Return a split of the library with its label columns typed as labels."""
    if not labels:
        return split

    def of_library(label: Any) -> Any:
        if isinstance(label, Sequence):
            return library.Sequence(of_library(label.feature))
        return library.ClassLabel(names=label.names)

    features = split.features.copy()
    features.update({name: of_library(label) for name, label in labels.items() if name in features})
    try:
        return split.cast(features)
    except Exception:  # noqa: BLE001
        return split


def together(found: dict[str, Any]) -> Any:
    """The splits of a dataset, all of them loaded."""
    library = _library()
    is_of_library = library is not None and all(isinstance(split, library.Dataset) for split in found.values())
    return library.DatasetDict(found) if is_of_library else DatasetDict(found)


def splits(names: list[str], load: Callable[[str], dict[str, Any]]) -> Any:
    """The splits of a dataset, each loaded on first access."""
    library = _library()
    base = DatasetDict if library is None else library.DatasetDict

    class Splits(base):  # type: ignore[misc, valid-type]
        """A mapping of split names to splits."""

        def __getitem__(self, name: Any) -> Any:
            if name in self and dict.__getitem__(self, name) is None:
                loaded = load(name)
                dict.__setitem__(self, name, make(loaded["documents"], loaded["columns"], loaded["features"]))
            return super().__getitem__(name)

        def get(self, name: Any, default: Any = None) -> Any:
            return self[name] if name in self else default  # noqa: SIM401

        def values(self) -> Any:
            return [self[name] for name in self]

        def items(self) -> Any:
            return [(name, self[name]) for name in self]

        def pop(self, name: Any, *default: Any) -> Any:
            if name in self:
                self[name]
            return super().pop(name, *default)

    return Splits(dict.fromkeys(names))


def documents(split: Any) -> dict[str, Any]:
    """Return the documents of the split that a function returned, and their column names."""
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
    """Return all rows, in one call where nothing has to be decoded; images and sounds stay encoded."""
    features = getattr(split, "features", None)
    if type(split).__module__.startswith("datasets.") and features is not None and hasattr(split, "to_list"):
        decoded = any(name in str(features) for name in ("Image(", "Audio(", "Video(", "Pdf("))
        if split.format["type"] is None:
            if not decoded:
                return split.to_list()
            kinds = features.to_dict()
            if not any(name in str(features) for name in ("Video(", "Pdf(")):
                encoded = split.cast(features.from_dict(_undecoded(kinds)))
                return [{name: _files(value, kinds[name]) for name, value in row.items()} for row in encoded]
    return list(split)


def _undecoded(feature: Any) -> Any:
    """Return features whose images and sounds are not decoded."""
    if isinstance(feature, Mapping):
        inner = {name: _undecoded(value) for name, value in feature.items()}
        return {**inner, "decode": False} if feature.get("_type") in ("Image", "Audio") else inner
    return [_undecoded(value) for value in feature] if isinstance(feature, list) else feature


def _files(value: Any, feature: Any) -> Any:
    """Return a stored value with images and sounds as files."""
    if value is None or not _has_media(feature):
        return value
    kind = feature.get("_type")
    if kind in ("Image", "Audio"):
        return _media.from_stored(kind, value, feature)
    if isinstance(value, list):
        inner = feature.get("feature")
        return [_files(item, inner) for item in value]
    if isinstance(value, Mapping):
        inner = feature.get("feature") if kind else feature
        return {name: _files(item, inner.get(name)) for name, item in value.items()}
    return value


def _library() -> Any:
    """Return the library `datasets`, or `None` where it is not installed."""
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


class ClassLabel:
    """The type of a column of class labels."""

    dtype = "int64"

    def __init__(
        self, num_classes: int | None = None, names: list[str] | None = None, names_file: Any = None, **_: Any
    ) -> None:
        if names is None:
            names = [str(number) for number in range(num_classes or 0)]
        self.names = list(names)
        self.num_classes = len(self.names)

    def int2str(self, values: Any) -> Any:
        """Return the name of a label id, or the names of several."""
        if isinstance(values, Iterable):
            return [self.int2str(value) for value in values]
        if not 0 <= values < self.num_classes:
            raise ValueError(f"invalid class label {values}")
        return self.names[values]

    def str2int(self, values: Any) -> Any:
        """Return the id of a label name, or the ids of several."""
        if not isinstance(values, str) and isinstance(values, Iterable):
            return [self.str2int(value) for value in values]
        text = str(values).strip()
        if text in self.names:
            return self.names.index(text)
        if text.lstrip("-").isdigit() and -1 <= int(text) < self.num_classes:
            return int(text)
        raise ValueError(f"invalid class label {values!r}")

    def __repr__(self) -> str:
        return f"ClassLabel(names={self.names!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassLabel) and other.names == self.names

    def __hash__(self) -> int:
        return hash(tuple(self.names))


class Sequence:
    """The type of a column of lists."""

    def __init__(self, feature: Any, length: int = -1, **_: Any) -> None:
        self.feature = feature
        self.length = length

    def __repr__(self) -> str:
        return f"Sequence({self.feature!r})"


_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", bytes: "binary", type(None): "null"}


def _feature(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _feature(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_feature(value[0])] if value else [Value("null")]
    return Value(_TYPES.get(type(value), type(value).__name__))


def _stored(value: Any) -> Any:
    """Return a value as a dataset stores it: tuples become lists."""
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
    """Rows with named columns. Methods return a new dataset."""

    def __init__(
        self,
        rows: Iterable[Row],
        columns: list[str] | None = None,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        self._rows = list(rows)
        if columns is None:
            columns = list(dict.fromkeys(name for row in self._rows for name in row))
        self._columns = columns
        self._labels = {name: label for name, label in (labels or {}).items() if name in columns}

    @classmethod
    def from_list(cls, mapping: list[Row], **_: Any) -> Dataset:
        """Make a dataset from rows."""
        return cls._of([_stored(row) for row in mapping])

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Iterable[Any]], **_: Any) -> Dataset:
        """Make a dataset from columns."""
        names = list(mapping)
        columns = [list(mapping[name]) for name in names]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("the columns have different lengths")
        rows = [dict(zip(names, map(_stored, values))) for values in zip(*columns)]
        return cls(rows, names)

    @classmethod
    def _of(cls, rows: list[Row], known: Iterable[str] = (), labels: Mapping[str, Any] | None = None) -> Dataset:
        """Return the rows, each with all columns."""
        columns = list(dict.fromkeys(name for row in rows for name in row)) if rows else list(known)
        if any(len(row) != len(columns) for row in rows):
            rows = [{name: row.get(name) for name in columns} for row in rows]
        return cls(rows, columns, labels)

    @property
    def column_names(self) -> list[str]:
        """The column names."""
        return list(self._columns)

    @property
    def features(self) -> dict[str, Any]:
        """The column types, inferred from the first value of each that is not None."""

        def kind(name: str) -> Any:
            first = next((row[name] for row in self._rows if row.get(name) is not None), None)
            label = self._labels.get(name)
            # A function may have replaced the label ids by other values.
            fits = isinstance(first, list if isinstance(label, Sequence) else int)
            return label if label is not None and (first is None or fits) else _feature(first)

        return {name: kind(name) for name in self._columns}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return (dict(row) for row in self._rows)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(f"column {key!r} does not exist; the columns are {self._columns}")
            return [row.get(key) for row in self._rows]
        if isinstance(key, slice):
            return Dataset(self._rows[key], self._columns).to_dict()
        if isinstance(key, Iterable):
            return self.select(key).to_dict()
        return dict(self._rows[key])

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"`Dataset.{name}` needs the package `datasets`, which is not installed")

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
        """Apply a function to each row, or to each batch of rows, and add the columns it returns."""
        if with_rank or drop_last_batch:
            raise TypeError("`with_rank` and `drop_last_batch` need the package `datasets`")
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
            return Dataset._of(made, [name for name in self._columns if name not in dropped], self._labels)
        size = batch_size if batch_size and batch_size > 0 else max(len(self._rows), 1)
        made = []
        for start in range(0, len(self._rows), size):
            batch = self[start : start + size]
            kept = {name: column for name, column in batch.items() if name not in dropped}
            indices = list(range(start, min(start + size, len(self._rows))))
            columns = {**kept, **(call(batch, indices) or {})}
            made.extend(Dataset.from_dict(columns)._rows)
        return Dataset._of(made, [name for name in self._columns if name not in dropped], self._labels)

    def filter(
        self,
        function: Callable[..., Any],
        with_indices: bool = False,
        input_columns: str | list[str] | None = None,
        batched: bool = False,
        fn_kwargs: dict[str, Any] | None = None,
        **_: Any,
    ) -> Dataset:
        """Return the rows for which the function returns a true value."""
        call = self._caller(function, with_indices, input_columns, fn_kwargs)
        if batched:
            kept = list(call(self.to_dict(), list(range(len(self._rows)))))
        else:
            kept = [call(dict(row), index) for index, row in enumerate(self._rows)]
        return Dataset([row for row, keep in zip(self._rows, kept) if keep], self._columns, self._labels)

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
        """Return the rows at these indices."""
        return Dataset([self._rows[index] for index in indices], self._columns, self._labels)

    def shuffle(self, seed: int | None = None, **_: Any) -> Dataset:
        """Return the rows in the order in which the library `datasets` shuffles them for the seed."""
        if seed is None:
            raise ValueError("shuffling without a seed needs the package `datasets`; pass a seed")
        return self.select(permutation(seed, len(self._rows)))

    def sort(self, column_names: str | list[str], reverse: bool = False, **_: Any) -> Dataset:
        """Return the rows sorted by columns."""
        names = _listed(column_names)
        rows = sorted(self._rows, key=lambda row: [row[n] for n in names], reverse=reverse)
        return Dataset(rows, self._columns, self._labels)

    def _check(self, names: Iterable[str]) -> None:
        absent = [name for name in names if name not in self._columns]
        if absent:
            raise ValueError(f"columns {absent} do not exist; the columns are {self._columns}")

    def rename_column(self, original_column_name: str, new_column_name: str, **_: Any) -> Dataset:
        """Rename a column."""
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self, column_mapping: Mapping[str, str], **_: Any) -> Dataset:
        """Rename several columns."""
        self._check(column_mapping)
        columns = [column_mapping.get(name, name) for name in self._columns]
        if len(set(columns)) < len(columns):
            raise ValueError(f"two columns would have the same name: {columns}")
        rows = [{column_mapping.get(name, name): item for name, item in row.items()} for row in self._rows]
        labels = {column_mapping.get(name, name): label for name, label in self._labels.items()}
        return Dataset(rows, columns, labels)

    def remove_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """Remove columns."""
        dropped = _listed(column_names)
        self._check(dropped)
        return self.select_columns([name for name in self._columns if name not in dropped])

    def select_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """Keep only these columns."""
        names = _listed(column_names)
        self._check(names)
        return Dataset([{name: row.get(name) for name in names} for row in self._rows], names, self._labels)

    def add_column(self, name: str, column: Iterable[Any], *_: Any, **__: Any) -> Dataset:
        """Add a column."""
        values = list(column)
        if name in self._columns:
            raise ValueError(f"there already is a column {name!r}")
        if len(values) != len(self._rows):
            raise ValueError(f"the column has {len(values)} values, and there are {len(self._rows)} rows")
        rows = [{**row, name: _stored(value)} for row, value in zip(self._rows, values)]
        return Dataset(rows, [*self._columns, name], self._labels)

    def cast_column(self, column: str, feature: Any, **_: Any) -> Dataset:
        """Change the type of a column; label names become ids where the type is `ClassLabel`."""
        self._check([column])
        labels = {name: label for name, label in self._labels.items() if name != column}
        if not isinstance(feature, ClassLabel):
            return Dataset(self._rows, self._columns, labels)

        def number(value: Any) -> Any:
            return feature.str2int(value) if isinstance(value, str) else value

        rows = [{**row, column: number(row.get(column))} for row in self._rows]
        return Dataset(rows, self._columns, {**labels, column: feature})

    def flatten_indices(self, **_: Any) -> Dataset:
        """Return the dataset itself."""
        return self

    def to_list(self) -> list[Row]:
        """Return the rows as a list."""
        return list(self)

    def to_dict(self, **_: Any) -> dict[str, list[Any]]:
        """Return the columns as a dictionary."""
        return {name: self[name] for name in self._columns}

    @classmethod
    def from_pandas(cls, df: Any, **_: Any) -> Dataset:
        """Make a dataset from the rows of a pandas data frame."""
        return cls.from_list(df.to_dict("records"))


class DatasetDict(dict):
    """A mapping of split names to splits."""

    def map(self, function: Callable[..., Any], **options: Any) -> DatasetDict:
        """Apply a function to every split."""
        return DatasetDict({name: split.map(function, **options) for name, split in self.items()})

    def filter(self, function: Callable[..., Any], **options: Any) -> DatasetDict:
        """Filter every split."""
        return DatasetDict({name: split.filter(function, **options) for name, split in self.items()})

    def shuffle(self, seeds: int | Mapping[str, int | None] | None = None, seed: int | None = None, **_: Any) -> DatasetDict:
        """Shuffle every split, with one seed or one each."""
        chosen = seed if seeds is None else seeds
        each = dict(chosen) if isinstance(chosen, Mapping) else dict.fromkeys(self, chosen)
        return DatasetDict({name: split.shuffle(seed=each.get(name)) for name, split in self.items()})


def concatenate_datasets(dsets: Iterable[Dataset], **_: Any) -> Dataset:
    """Concatenate datasets."""
    return Dataset._of([row for split in dsets for row in split])


def _load_dataset(path: str, name: str | None = None, *, split: str | None = None, **options: Any) -> Any:
    """Return the splits of a dataset, or one of them; the engine loads them."""
    from lm_eval import _host

    return _host.load_dataset(path, name, **(options if split is None else {**options, "split": split}))


def _needs_library(name: str) -> Callable[..., Any]:
    def missing(*_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError(f"`datasets.{name}` needs the package `datasets`", name="datasets")

    return missing


class _DatasetsFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds our `datasets` where no other finder has it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == "datasets" else None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(
            __lm_eval__=True,
            __version__="4.0.0",
            Dataset=Dataset,
            DatasetDict=DatasetDict,
            Value=Value,
            ClassLabel=ClassLabel,
            Sequence=Sequence,
            Features=dict,
            concatenate_datasets=concatenate_datasets,
            load_dataset=_load_dataset,
            load_from_disk=_needs_library("load_from_disk"),
        )


def install() -> None:
    """Make `import datasets` work in tasks where the library is not installed."""
    sys.meta_path.append(_DatasetsFinder())
