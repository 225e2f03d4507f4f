"""Records how the `datasets` library reads small files, into tests/vectors/datasets.json.

Needs `datasets` (5.2.0), `pandas`, `pyarrow`. Run: python tests/record/datasets_vectors.py [OUT [SEED COUNT]] With
SEED and COUNT, that many random cases are written instead of the fixed ones.
"""

import base64
import datetime
import decimal
import gzip
import json
import os
import random
import shutil
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp()

import datasets  # noqa: E402
import pandas  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

datasets.disable_progress_bars()
datasets.logging.set_verbosity(datasets.logging.CRITICAL + 10)
import logging  # noqa: E402

logging.disable(logging.CRITICAL + 10)


def plain(value):
    """Return the value as the engine represents it: values without a type become their `str`."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, pandas.Timestamp):
        value = value.to_pydatetime()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.replace(tzinfo=datetime.timezone(value.utcoffset()))
    if isinstance(value, (decimal.Decimal, datetime.time, datetime.timedelta)):
        return str(value)
    return value


def record(case):
    """Add `expected` (the repr of the rows of each split) or `error` to a case."""
    folder = tempfile.mkdtemp()
    for path, content in case["files"].items():
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if isinstance(content, dict):
            content = base64.b64decode(content["base64"])
        else:
            content = content.encode("utf-8", "surrogatepass")
        with open(target, "wb") as file:
            file.write(content)
    here = os.getcwd()
    os.chdir(folder)
    try:
        splits = case.get("splits")
        loaded = datasets.load_dataset(
            case["path"], case.get("config"), split={s: s for s in splits} if splits else None, **case.get("kwargs", {})
        )
        case["expected"] = {name: repr([plain(row) for row in rows]) for name, rows in loaded.items()}
    except BaseException as error:  # including StopIteration
        case["error"] = type(error).__name__
    finally:
        os.chdir(here)
        shutil.rmtree(folder)
    return case


def binary(content):
    return {"base64": base64.b64encode(content).decode()}


def parquet(table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return binary(sink.getvalue().to_pybytes())


def stream(table, compression=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=2)
    return binary(sink.getvalue().to_pybytes())


def case(path, files, **fields):
    return {"path": path, "files": files, **fields}


def one(path, name, content, **kwargs):
    return case(path, {name: content}, kwargs={"data_files": name, **kwargs})


def json_cases():
    lines = [
        '{"a":1}\n{"a":2.5}\n',
        '{"a":1}\n{"a":"7"}\n{"a":"x"}\n{"a":null}\n{"a":"null"}\n{"a":0.12345678901234567}\n{"a":"-"}\n',
        '{"a":{"b":1}}\n{"a":{"c":1}}\n',
        '{"a":{"b":1}}\n\n{"a":{"c":1}}\n',
        '{"a":{"b":1}}\n{"a":{"c":1},"f":0.12345678901234567}\n',
        '[{"a":0.12345678901234567, "b":1e22,"c":123456.7890123456}]',
        '["x","y"]',
        "[1,2]",
        '[1,"a"]',
        "[]",
        "",
        "\n\n",
        "{}",
        '\ufeff{"a":1}\n',
        '\ufeff[{"a":1}]\n',
        '{"a":NaN}\n{"a":1}\n',
        '{"a":1}\n{"a":bad}\n',
        '{"a":18446744073709551615}\n',
        '{"a":123456789012345678901234567890}\n',
        '{"a":["2020-01-01"],"b":{"c":"2020-01-01T10:00:00Z"}}\n',
        '{"a":"2020-01-01"}\n{"a":null}\n{"a":"x"}\n',
        '{"a":[]}\n{"a":null}\n',
        '{"a":[]}\n{"a":[1]}\n{"a":[1.5]}\n',
        '{"a":[1,"x"]}\n',
        '{"a":[{"b":1},{"c":2}]}\n',
        '{"a":[1,[2]]}',
        '{"a":[{"b":1},{"b":"x"}]}\n',
        '{"a":{"b":1}}\n{"a":{"b":"x"}}\n',
        '{"a":true}\n{"a":1}\n',
        '{"a":{}}\n',
        '{"a":null}\n',
        '{"b":1,"a":2}\n{"a":1,"c":5}\n',
        '{\n "a": 1,\n "b": {"x":1}\n}\n{"a":2, "b": {"y": 1}}\n',
        '{"a":1}{"a":2}',
        '{"a":1}\r\n{"a":2}\r\n',
        '{"a":"\\u0000\\u00e9\\ud83d\\ude00"}\n',
        '{"ä":"é\u2028x"}\n',
        '{"a":{"x":1,"y":null}}\n{"a":{"y":"2020-01-01","x":2}}\n',
    ]
    # Lists that begin with nulls, columns missing from the first row, floats near the codec's limits.
    lines += [
        '{"b": 0.28073131691422337, "e": [null, "7"], "d": "2020-01-01"}\n{"b": 1.0, "e": []}\n',
        '[{"b": [null, 1.0]}, {"b": [0.14022924047072816]}]',
        '{"a": 13}\n{}\n{"d": {"p": 0.8624343490931806, "r": [null, null]}}\n',
        '{"z": 1}\n{"y": 2, "x": {}}\n',
        '{"z": 1}\n{"y": 2, "x": true}\n{"x": "t"}\n',
        '{"m": "a"}\n{"m": 1e17}\n{"m": 0.3}\n{"m": [1e-11, 123456789012345.6, 1.0]}\n',
    ]
    dates = ["2020-01-01 10:00", "2020-01-01T10", "2020-01-01T10:00:00+05:30", "2020-01-01T10:00:00.5", "2020-1-1"]
    dates += ["2020-02-30", "2020-01-01 10:00:60", "9999-12-31", "2020-01-01Z", "2020-01-01T10:00:00-0530"]
    lines += [json.dumps({"a": date}) + "\n" for date in dates]
    yield from (one("json", "x.jsonl", text) for text in lines)
    bodies = [
        '[{"a":1},{"a":2.5}]',
        '[{"a":1,"b":"x"},{"b":"y"}]',
        '[{"a":"2020-01-01","date":"2020-01-01"}]',
        "[1,2]",
        '["x"]',
        '{"a":[1,2]}',
        '{"a":{"x":1,"y":2}}',
        "[]",
        '[{"a":{"b":1}},{"a":{"c":2}}]',
        '[{"a":0.12345678901234567}]',
        '[{"a":1.0},{"a":null},{}]',
        "[[1,2],[3,4]]",
        '"s"',
    ]
    yield from (one("json", "x.json", '{"v":[1,{"data":2}],"data":%s}' % body, field="data") for body in bodies)
    files = {"a.jsonl": '{"x":1,"y":"p"}\n{"x":2,"y":"q"}\n', "b.jsonl": '{"x":3,"y":"r"}\n'}
    for kwargs in [
        {"data_files": ["b.jsonl", "a.jsonl"]},
        {"data_files": "*.jsonl"},
        {"data_files": {"train": "a.jsonl", "test": ["b.jsonl"]}},
        {"data_files": "c.jsonl"},
    ]:
        yield case("json", files, kwargs=kwargs)
    kwargs = {"data_files": {"train": "a.jsonl", "test": "b.jsonl"}}
    for splits in [["test"], ["train[:1]", "test"], ["train+test"], ["train[50%:]"], ["nope"], ["train[:0]"]]:
        yield case("json", files, kwargs=kwargs, splits=splits)
    for first, second in [
        ('{"x":1}', '{"x":2.0}'),
        ('{"x":1}', '{"x":2.5}'),
        ('{"x":1.5}', '{"x":2}'),
        ('{"x":"a"}', '{"x":2}'),
        ('{"x":"a"}', '{"x":2.0}'),
        ('{"x":"a"}', '{"x":true}'),
        ('{"x":1}', '{"x":"7"}'),
        ('{"x":1}', '{"x":"z"}'),
        ('{"x":"a"}', '{"x":"2020-01-01"}'),
        ('{"x":1,"y":2}', '{"x":3}'),
        ('{"x":{"a":1,"b":2}}', '{"x":{"b":3}}'),
        ('{"x":[1]}', '{"x":[2.0]}'),
        ('{"x":1}\n{"x":"a"}', '{"x":"8"}'),
    ]:
        yield case(
            "json",
            {"a.jsonl": first + "\n", "b.jsonl": second + "\n"},
            kwargs={"data_files": {"train": "a.jsonl", "test": "b.jsonl"}},
        )
    packed = gzip.compress(b'{"a": 1}\n{"a": 2}\n', mtime=0)
    yield case("json", {"x.jsonl.gz": binary(packed)}, kwargs={"data_files": "x.jsonl.gz"})


def csv_cases():
    texts = [
        "a,b\n1,x\n2,y\n", "a\n1\n\n2\n", "a,b\n1,\n,2\n", "a\n007\n08\n", "a\n007\nx\n", "a\nTrue\nFalse\n",
        "a,b\nTrue,1\n,2\n", "a\ntrue\nFALSE\n", "a\ntrue\n1\n", "a\n1.5\n2\n", "a\n1e5\n2\n",
        "a\n18446744073709551615\n1\n", "a\n18446744073709551615\n-1\n", "a,b\n9223372036854775808,1\n,2\n",
        "a\n inf\n-Infinity\n", "a\n 1\n2 \n", "a\n+1\n2\n", "a\n0x10\n", 'a\n"1,000"\n',
        'a,b\n"x ""q"" y","l1\nl2"\n', "a,a,b\n1,2,3\n", ",a\n1,2\n", "a,b\n1\n2,3\n", "a,b\n1,2\n4,5,6\n", "a,b\n", "",
        "\ufeffa,b\n1,2\n", "a,b\r\n1,x\r\n2,y\r\n", "a,b\r1,x\r2,y\r",
        "a\n0.1\n0.12345678901234567\n123456789.123456789\n1e-320\n1e400\n2.2250738585072011e-308\n5e-324\n",
        "a\nNA\nN/A\nNaN\nnan\nnull\nNone\n#N/A\nn/a\n<NA>\nNULL\n-nan\n-NaN\n1.#IND\n#NA\n\"\"\nx\n",
        "a\nnone\nNone\nx\n", "a\nTrue\nNA\n", "a\nTrue\nx\n", "a\n2020-01-01\n", 'a,b\n"NA",1\nx,2\n', 'a,b\n "q",1\n',
        'a,b\nx"y"z,1\n', 'a,b\n"x"y,1\n', "a\n\n\n", "a,b\n,\n,\n", 'a,b\n1,"x\n', "a,b\n1,2\n   \n3,4\n",
        "a\n.5\n5.\n-.5\n", "a\n1e\n", "a\n--1\n", "a\ninf\nINF\n+inf\ninfinity\n", "a\ntRue\n", "a\n True\n", "é\nü\n",
        "a\n99999999999999999999\n1.5\n", "a\n1.5\n99999999999999999999\n", "a\n-99999999999999999999\n1.5\n",
    ]  # fmt: skip
    yield from (one("csv", "x.csv", text) for text in texts)
    yield one("csv", "x.csv", "a;b\n1;2\n", sep=";")
    yield one("csv", "x.tsv", "a\tb\n1\t2\n", delimiter="\t")
    yield one("csv", "x.csv", "a\n1\n2\n", names=["z"])
    yield one("csv", "x.csv", "1\n2\n", header=None)
    yield one("csv", "x.csv", "1,2\n3,4\n", column_names=["p", "q"])
    yield one("csv", "x.csv", "a,b\n1,2\n3,4\n", usecols=["b"])
    yield one("csv", "x.csv", "# c\na,b\n1,2\n", skiprows=1)
    yield one("csv", "x.csv", "a\nNA\nx\n", keep_default_na=False)
    yield one("csv", "x.csv", "a\nNA\n1\n", na_filter=False)
    yield one("csv", "x.csv", "a\nmissing\n1\n", na_values=["missing"])
    yield one("csv", "x.csv", 'a\n"x\n', quoting=3)


def text_cases():
    for text, kwargs in [
        ("a\n\nb\n", {}),
        ("a\r\nb\rc\n", {}),
        ("a\u2028b\x0cc\n", {}),
        ("a\n\nb\n\n\nc\nd", {"sample_by": "paragraph"}),
        ("a\nb\n", {"sample_by": "document"}),
        ("", {}),
        ("\ufeffa\n", {}),
        ("a\nb", {"keep_linebreaks": True}),
        ("a\n\n\n\n", {"sample_by": "paragraph"}),
        ("", {"sample_by": "document"}),
        ("\n\nx\n", {"sample_by": "paragraph"}),
        ("x\r\n\r\ny\r\n", {"sample_by": "paragraph"}),
    ]:
        yield one("text", "x.txt", text, **kwargs)


def rich_table():
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)
    return pa.table(
        {
            "i8": pa.array([1, None, -3], pa.int8()),
            "u64": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "f32": pa.array([0.1, None, 2.5], pa.float32()),
            "f64": pa.array([0.1, float("inf"), None]),
            "b": pa.array([True, None, False]),
            "s": pa.array(["é", "", None]),
            "ls": pa.array(["x", None, "y"], pa.large_string()),
            "bin": pa.array([b"\x00\xff", None, b""], pa.binary()),
            "d": pa.array([datetime.date(2020, 1, 1), None, datetime.date(1, 1, 1)]),
            "ts": pa.array([moment, None, moment], pa.timestamp("us")),
            "tz": pa.array([moment, None, moment], pa.timestamp("ms", tz="UTC")),
            "t": pa.array([datetime.time(1, 2, 3), None, datetime.time(4, 5, 6, 7)], pa.time64("us")),
            "du": pa.array([datetime.timedelta(days=1, seconds=2), None, datetime.timedelta(microseconds=1)]),
            "dec": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.01")], pa.decimal128(10, 2)),
            "l": pa.array([[1, None], [], None], pa.list_(pa.int64())),
            "ll": pa.array([[["a"], []], None, [None]], pa.list_(pa.list_(pa.string()))),
            "st": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
            "lst": pa.array([[{"x": 1}], [], None], pa.list_(pa.struct({"x": pa.int64()}))),
            "n": pa.nulls(3),
        }
    )


def columnar_cases():
    table = rich_table()
    yield case("parquet", {"x.parquet": parquet(table)}, kwargs={"data_files": "x.parquet"})
    for compression in ["gzip", "zstd", "brotli", "lz4", "none"]:
        small = parquet(table.select(["s", "l"]), compression=compression, row_group_size=2)
        yield case("parquet", {"x.parquet": small}, kwargs={"data_files": "x.parquet"})
    yield case("parquet", {"x.parquet": parquet(table)}, kwargs={"data_files": "x.parquet", "columns": ["s", "l"]})
    yield case("arrow", {"x.arrow": stream(table)}, kwargs={"data_files": "x.arrow"})
    yield case("arrow", {"x.arrow": stream(table.select(["s", "i8"]), "zstd")}, kwargs={"data_files": "x.arrow"})
    features = datasets.Features(
        {
            "label": datasets.ClassLabel(names=["neg", "pos"]),
            "answers": datasets.Sequence({"text": datasets.Value("string"), "start": datasets.Value("int32")}),
            "mixed": datasets.Json(),
        }
    )
    rows = [
        {"label": 1, "answers": {"text": ["a", "b"], "start": [1, 2]}, "mixed": {"k": [1, "x"]}},
        {"label": "neg", "answers": {"text": [], "start": []}, "mixed": "7"},
    ]
    typed = datasets.Dataset.from_list(rows, features=features)
    sink = os.path.join(tempfile.mkdtemp(), "x.parquet")
    typed.to_parquet(sink)
    with open(sink, "rb") as file:
        yield case("parquet", {"x.parquet": binary(file.read())}, kwargs={"data_files": "x.parquet"})
    encoded = pa.table({"c": pa.array(["x", "y", "x", None]).dictionary_encode()})
    yield case("arrow", {"x.arrow": stream(encoded)}, kwargs={"data_files": "x.arrow"})
    first, second = pa.table({"x": [1, 2]}), pa.table({"x": [1.0, 2.0]})
    yield case("parquet", {"a.parquet": parquet(first), "b.parquet": parquet(second)}, kwargs={"data_files": "*"})


def folder_cases():
    row = '{"a": %d}\n'
    layouts = [
        ["data.jsonl"],
        ["train.jsonl", "dev.jsonl", "eval.jsonl"],
        ["train.jsonl", "other.jsonl"],
        ["mytrain.jsonl", "my-test.jsonl"],
        ["a/train.jsonl", "a/test_1.jsonl", "a/test_0.jsonl"],
        ["train/x.jsonl", "train/y.jsonl", "validation/x.jsonl"],
        ["data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl", "data/extra-00000-of-00001.jsonl"],
        [".hidden.jsonl", "x.jsonl", "__skip__/y.jsonl"],
        ["training.jsonl", "valid.jsonl", "testing.jsonl"],
        ["notes.md"],
    ]
    for layout in layouts:
        files = {"set/" + path: row % place for place, path in enumerate(layout)}
        yield case("set", files)
    files = {"set/train.jsonl": row % 1, "set/dev.jsonl": row % 2}
    yield case("set", files, splits=["dev"])
    yield case("set", files, splits=["validation"])
    yield case("set", files, config="other")
    yield case("set", files, config="default")
    yield case("set", {"set/train.jsonl": row % 1, "set/test.csv": "a\n1\n"})
    yield case("set", {"set/train.tsv": "a\tb\n1\t2\n"})
    yield case("set", files, kwargs={"data_files": {"x": "dev.jsonl"}})
    yield case("set", {"set/en/train.jsonl": row % 1, "set/de/train.jsonl": row % 2}, kwargs={"data_dir": "de"})
    readme = "---\nconfigs:\n- config_name: a\n  data_files: a.jsonl\n- config_name: b\n  data_files:\n  - split: test\n    path: b*.jsonl\n  - split: dev\n    path:\n    - b2.jsonl\n    - b1.jsonl\n%s---\n"
    files = {"set/a.jsonl": row % 1, "set/b1.jsonl": row % 2, "set/b2.jsonl": row % 3}
    for extra in ["", "  default: true\n", "- config_name: default\n  data_dir: .\n"]:
        for config in [None, "a", "b", "c"]:
            yield case("set", {**files, "set/README.md": readme % extra}, config=config)
    info = "---\ndataset_info:\n  features:\n  - name: b\n    dtype: string\n  - name: a\n    dtype: float32\n  - name: l\n    dtype:\n      class_label:\n        names:\n          '0': no\n          '1': 'yes'\n---\n"
    yield case("set", {"set/x.jsonl": '{"a": 1, "b": 2, "l": "yes"}\n{"a": 0.1, "b": 3, "l": "no"}\n', "set/README.md": info})
    yield case("set", {"set/x.csv": "a,b,l\n1,2,1\n0.1,3,0\n", "set/README.md": info})


# Random cases.

WORDS = ["x", "", "é", "7", "1.5", "true", "null", "2020-01-01", "2020-01-01T10:00:00", "NaN", "-", "[1]", "a b", "None"]


def random_value(rng, depth):
    kind = rng.choice(["int", "float", "str", "bool", "null", "list", "dict"] if depth else ["int", "float", "str", "bool", "null"])
    if kind == "int":
        return rng.choice([0, 1, -5, 2**31, 2**53 + 1, 10**18, rng.randrange(1000)])
    if kind == "float":
        return rng.choice([0.5, 1.0, -0.1, 0.3, 1e-7, 1e20, rng.random(), rng.random() * 1e6, round(rng.random(), 3)])
    if kind == "str":
        return rng.choice(WORDS)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "list":
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {rng.choice("pqr"): random_value(rng, depth - 1) for _ in range(rng.randrange(3))}


def like(rng, value, noise):
    """Return another value, usually of the same shape."""
    if rng.random() < noise:
        return random_value(rng, 2)
    if rng.random() < 0.1:
        return None
    if isinstance(value, bool):
        return rng.random() < 0.5
    if isinstance(value, int):
        return rng.randrange(-100, 100)
    if isinstance(value, float):
        return rng.choice([rng.random(), 1.0, rng.random() * 1e4])
    if isinstance(value, str):
        if value.startswith("2020"):
            return rng.choice(["2021-02-03", "2020-01-01", "2021-02-03 04:05:06", value])
        return rng.choice(WORDS)
    if isinstance(value, list):
        return [like(rng, value[0], noise) for _ in range(rng.randrange(3))] if value else []
    if isinstance(value, dict):
        return {key: like(rng, item, noise) for key, item in value.items() if rng.random() > noise / 2}
    return None


def random_json(rng):
    noise = rng.choice([0, 0, 0.02, 0.1])
    model = {name: random_value(rng, 2) for name in rng.sample("abcde", rng.randrange(1, 4))}
    rows = [like(rng, model, noise) or {} for _ in range(rng.randrange(1, 6))]
    rows = [row if isinstance(row, dict) else {"a": row} for row in rows]
    form = rng.random()
    if form < 0.6:
        text = "".join(json.dumps(row, ensure_ascii=rng.random() < 0.5) + "\n" for row in rows)
    elif form < 0.7:
        text = "\n\n".join(json.dumps(row) for row in rows)
    elif form < 0.8:
        text = "\n".join(json.dumps(row, indent=1) for row in rows)
    elif form < 0.95:
        text = json.dumps(rows, indent=rng.choice([None, 2]))
    else:
        return one("json", "x.json", json.dumps({"k": 1, "data": rows}), field="data")
    return one("json", "x.json", text)


CELLS = ["", "1", "-2", "007", "1.5", "1e3", "True", "false", "NA", "nan", "x", " y ", '"q"', '"a,b"', '"l\nm"', "é", " 3", "inf", "2020-01-01", '"u""v"', "0.1", "null", "99999999999999999999", "12345678901234567890", "0.30000000000000004"]


def random_csv(rng):
    width = rng.randrange(1, 4)
    pools = [rng.sample(CELLS, rng.randrange(1, 4)) for _ in range(width)]
    rows = [[rng.choice(pool) for pool in pools] for _ in range(rng.randrange(1, 6))]
    if rng.random() < 0.3:
        rows = [[repr(rng.choice([rng.random(), rng.random() * 10 ** rng.randrange(-20, 20)])) for _ in row] for row in rows]
    end = rng.choice(["\n", "\n", "\r\n"])
    lines = [",".join("abc"[:width])] + [",".join(row) for row in rows]
    return one("csv", "x.csv", end.join(lines) + rng.choice(["", end]))


def random_folder(rng):
    names = ["train", "test", "dev", "val", "validation", "x", "my_train", "testing", "eval-1", "data", "trainer"]
    files = {}
    for place in range(rng.randrange(1, 5)):
        parts = [rng.choice(names) for _ in range(rng.randrange(0, 3))] + [rng.choice(names) + rng.choice([".jsonl", "_0.jsonl", ".csv", ".txt", "-00000-of-00001.jsonl"])]
        path = "set/" + "/".join(parts)
        files[path] = "a\n%d\n" % place if path.endswith("csv") else '{"a": %d}\n' % place
    return case("set", files)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "vectors", "datasets.json")
    if len(sys.argv) > 3:
        rng = random.Random(int(sys.argv[2]))
        makers = [random_json, random_json, random_json, random_csv, random_csv, random_folder]
        cases = [rng.choice(makers)(rng) for _ in range(int(sys.argv[3]))]
    else:
        cases = [*json_cases(), *csv_cases(), *text_cases(), *columnar_cases(), *folder_cases()]
    recorded = [record(case) for case in cases]
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"datasets": datasets.__version__, "cases": recorded}, file, indent=0, ensure_ascii=False)
        file.write("\n")


main()
