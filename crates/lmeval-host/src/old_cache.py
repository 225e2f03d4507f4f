# Prints the answers of a response cache, one line of JSON per row, then "end" or {"error": ...}.
import io
import json
import pathlib
import pickle
import sys

TABLE = "unnamed"


class Plain(pickle.Unpickler):
    """Unpickles plain values only; a cache must not run code."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError("%s.%s is not an answer" % (module, name))


def number(value):
    return float(value) if type(value) in (int, float) else None


def answer(value):
    """Convert a stored value to an answer, or None."""
    if type(value) is str:
        value.encode("utf-8")
        return value
    if type(value) is float:
        return {"logprob": value}
    if type(value) is not tuple or len(value) != 2:
        return None
    logprob, is_greedy = number(value[0]), value[1]
    if logprob is None:
        return None
    if is_greedy is None:
        # Only rolling log-likelihoods are stored without the flag.
        return {"logprob": logprob}
    if type(is_greedy) in (bool, int) and is_greedy in (0, 1):
        return [logprob, bool(is_greedy)]
    return None


def row(key, value, is_regular):
    try:
        found = answer(Plain(io.BytesIO(value)).load()) if is_regular else None
        return None if found is None else [key.decode("ascii"), found]
    except Exception:
        # Unpickling can fail in any way; such a row is not an answer.
        return None


def rows(path):
    import sqlite3

    connection = sqlite3.connect(pathlib.Path(path).resolve().as_uri() + "?mode=ro", uri=True)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if TABLE not in tables:
        listed = ", ".join("`%s`" % name for name in sorted(tables)) or "none"
        raise ValueError("It has no table `%s`, which response caches have; tables: %s" % (TABLE, listed))
    # A string that is not valid UTF-8 must not fail the whole file.
    connection.text_factory = bytes
    regular = "typeof(key) = 'text' AND typeof(value) = 'blob'"
    return connection.execute("SELECT key, value, %s FROM %s" % (regular, TABLE))


def main():
    write = sys.stdout.buffer.write
    try:
        for key, value, is_regular in rows(sys.argv[1]):
            write(json.dumps(row(key, value, is_regular)).encode("ascii") + b"\n")
        end = "end"
    except BrokenPipeError:
        raise
    except Exception as error:
        end = {"error": str(error)}
    write(json.dumps(end).encode("ascii") + b"\n")
    sys.stdout.buffer.flush()


main()
