"""Worker operations for models: makes a model, calls it, and sends each answer as soon as it is available.

The worker may have this package or the original one installed, so this module imports only the standard library and
whichever `lm_eval` it finds.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

_ROLLING = "loglikelihood_rolling"
_GENERATE = "generate_until"

_served: dict[int, Served] = {}
"""The models of this process by handle."""


class BadAnswer(TypeError):
    """An answer of the wrong type."""


class DifferingAnswers(ValueError):
    """A method returned answers that differ from those it had handed over before."""


class Served:
    """A model, with what the engine needs to know about it."""

    def __init__(self, lm: Any, ignored: list[str], is_object: bool = False) -> None:
        self.lm = lm
        self.ignored = ignored
        self.inner = _unwrapped(lm)
        self.is_object = is_object
        """Whether the caller made the model, so that no constructor arguments identify it."""
        self.prompt_type: Callable[[str], Any] = _json_prompt
        self.share: Callable[..., Any] | None = None
        """Distributes requests among the processes of the model, if there are several."""
        self._before = getattr(lm, "cache_hook", None)
        # A `CachingLM` receives answers through the hook that is about to be replaced.
        self.hook = Hook(None if self.inner is lm else getattr(self.inner, "cache_hook", None))
        if hasattr(lm, "set_cache_hook"):
            lm.set_cache_hook(self.hook)
        else:
            lm.cache_hook = self.hook

    def release(self) -> None:
        """Give the model its own hook back."""
        if self._before is not None and hasattr(self.lm, "set_cache_hook"):
            self.lm.set_cache_hook(self._before)

    @property
    def name(self) -> str:
        """The name of the model's class."""
        return type(self.inner).__qualname__


def _unwrapped(lm: Any) -> Any:
    """The model inside a `CachingLM`, or the model itself."""
    caching = getattr(sys.modules.get("lm_eval.api.model"), "CachingLM", None)
    while caching is not None and isinstance(lm, caching):
        lm = lm.lm
    return lm


class Hook:
    """Replaces the cache hook of a model: sends each answer to the engine at once."""

    dbdict = None

    def __init__(self, next_hook: Any = None) -> None:
        self._call: _Call | None = None
        self._next = next_hook

    def follow(self, call: _Call | None) -> None:
        """Pass answers to a call from now on."""
        self._call = call

    def add_partial(self, attr: str, req: Any, res: Any) -> None:
        """Take the answer to one request of the method `attr`."""
        if self._call is not None:
            self._call.take_early(attr, req, res)
            if self._next is not None:
                self._next.add_partial(attr, req, res)


class _Call:
    """One call of a model method, with the requests answered so far."""

    def __init__(self, method: str, arguments: list[tuple[Any, ...]], send: Callable[[Any], None]) -> None:
        self.method = method
        self.arguments = arguments
        self.answers: list[Any] = [None] * len(arguments)
        self._differing: dict[int, Any] = {}
        self._send = send
        self._lock = threading.Lock()
        self._indices: dict[Any, list[int]] | None = None
        self._exact: list[bytes] = []

    def take_early(self, method: str, arguments: Any, result: Any) -> None:
        """Take an answer before the call returns; an answer that matches none of its requests is ignored."""
        if method != self.method or not isinstance(arguments, Iterable):
            return
        with self._lock:
            index = self._find(arguments)
            if index is None:
                return
            try:
                answer = _checked(method, result)
            except BadAnswer:
                # The method will return the same answer, which is an error then.
                return
            self.answers[index] = answer
            self._send([index, *answer])

    def take(self, index: int, result: Any) -> None:
        """Take an answer that the method has returned."""
        with self._lock:
            try:
                answer = _checked(self.method, result)
            except BadAnswer as error:
                if self.answers[index] is None:
                    self._send([index, None, str(error)])
                else:
                    self._differing[index] = result
                return
            if self.answers[index] is None:
                self.answers[index] = answer
                self._send([index, *answer])
            elif repr(self.answers[index]) != repr(answer):
                self._differing[index] = answer

    def check(self, called: str) -> None:
        """Raise if answers that were handed over and used differ from those that were returned."""
        early: dict[bytes, list[tuple[str, int]]] = {}
        late: dict[bytes, list[tuple[str, int]]] = {}
        for index, answer in self._differing.items():
            early.setdefault(self._exact[index], []).append((repr(self.answers[index]), index))
            late.setdefault(self._exact[index], []).append((repr(answer), index))
        for key, answers in early.items():
            # Equal requests may have been answered out of order.
            for (given, _), (returned, index) in zip(sorted(answers), sorted(late[key]), strict=True):
                if given != returned:
                    raise DifferingAnswers(
                        f"{called} returned {_shortened(returned)} for request {index} of {len(self.answers)}, "
                        f"after it had given {_shortened(given)} to `cache_hook.add_partial`"
                    )

    def _find(self, arguments: Any) -> int | None:
        """Return the index of the first unanswered request with these arguments."""
        if self._indices is None:
            self._indices = {}
            for index, own in enumerate(self.arguments):
                keys = _keys(self.method, own)
                self._exact.append(keys[0])
                for key in keys:
                    self._indices.setdefault(key, []).append(index)
        arguments = (arguments,) if isinstance(arguments, str) else tuple(arguments)
        exact, loose = _keys(self.method, arguments)
        found = self._open(exact)
        if found is None and len(self._indices.get(loose, ())) == 1:
            # Models change generation settings on the way; a unique context identifies the request.
            found = self._open(loose)
        return found

    def _open(self, key: Any) -> int | None:
        indices = (self._indices or {}).get(key, ())
        return next((index for index in indices if self.answers[index] is None), None)


def _keys(method: str, arguments: tuple[Any, ...]) -> tuple[bytes, bytes]:
    """Return the keys of a request: one of all arguments, and for generation one of the context alone."""
    if method == _ROLLING:
        # The string is the only argument, or follows an empty context.
        arguments = arguments[-1:]
    exact = _digest(arguments)
    return exact, b"loose" + _digest(arguments[:1]) if method == _GENERATE else exact


def _digest(value: Any) -> bytes:
    text = json.dumps(value, default=repr)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _checked(method: str, result: Any) -> tuple[Any, ...]:
    """Return an answer as a JSON value."""
    if method == _GENERATE:
        if not isinstance(result, str):
            raise BadAnswer(f"expected a string, found a value of type `{type(result).__name__}`")
        return (_valid(result),)
    if method == _ROLLING:
        if isinstance(result, (tuple, list)) and result:
            result = result[0]
        return (_number(result), False)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise BadAnswer(f"expected a pair `(log-likelihood, is greedy)`, found {_excerpt(result)}")
    return (_number(result[0]), bool(result[1]))


def _number(value: Any) -> float:
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise BadAnswer(f"expected a log-likelihood, found {_excerpt(value)}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadAnswer(f"expected a log-likelihood, found {_excerpt(value)}") from None


def _excerpt(value: Any) -> str:
    return f"{_shortened(repr(value))} of type `{type(value).__name__}`"


def _shortened(text: str) -> str:
    return f"`{text[:77] + '…' if len(text) > 78 else text}`"


def _valid(text: str) -> str:
    """Return the string with everything that UTF-8 cannot encode replaced."""
    text = str.__str__(text)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _names(worker: Any, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    registry = importlib.import_module("lm_eval.api.registry")
    # This package's classes for the engine's own models are not listed; the original package lacks `_dump`.
    yield sorted(registry._dump()["model"] if hasattr(registry, "_dump") else registry.model_registry)


def _open(worker: Any, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    handle = serve(find(message["name"]) if function is None else function, message)
    worker.opened(_served[handle])
    yield describe(handle, getattr(worker, "needs_identity", True))


def find(name: str) -> Any:
    """Return the class that is registered under a name."""
    return importlib.import_module("lm_eval.api.registry").get_model(name)


def serve(target: Any, message: dict[str, Any]) -> int:
    """Make a model from a class, or take an existing object; return its handle."""
    _seed(message.get("seeds") or [])
    ignored: list[str] = []
    lm = target
    if isinstance(target, type):
        lm, ignored = _create(target, message.get("args") or {}, message.get("additional") or {})
    handle = len(_served)
    _served[handle] = Served(lm, ignored, is_object=lm is target)
    return handle


def _create(cls: Any, arguments: dict[str, Any], additional: dict[str, Any]) -> tuple[Any, list[str]]:
    additional = {name: value for name, value in additional.items() if value is not None}
    ignored: list[str] = []
    own = {name for base in cls.__mro__ if not _is_base(base) for name in vars(base)}
    if "create_from_arg_obj" not in own:
        if not arguments and "create_from_arg_string" in own:
            return cls.create_from_arg_string("", additional), ignored
        ignored = _unknown(cls, additional)
        additional = {name: value for name, value in additional.items() if name not in ignored}
    return cls.create_from_arg_obj(arguments, additional), ignored


def _is_base(cls: type) -> bool:
    """Whether a class is a base class of models."""
    return cls is object or cls.__module__ in ("abc", "typing", "lm_eval.api.model")


def _unknown(cls: Any, additional: dict[str, Any]) -> list[str]:
    """Return the arguments that the constructor of a class does not accept."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return []
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return [name for name in additional if name not in names]


def _seed(seeds: list[int | None]) -> None:
    """Seed the generators of the standard library, numpy and torch, if they are imported."""
    random, numpy, torch = [*seeds, None, None, None][:3]
    if random is not None:
        importlib.import_module("random").seed(random)
    if numpy is not None and "numpy" in sys.modules:
        importlib.import_module("numpy.random").seed(numpy)
    if torch is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(torch)


def describe(handle: int, needs_identity: bool = True) -> dict[str, Any]:
    """Return the identity of a model; its state is expensive and included only where answers are cached."""
    served = _served[handle]
    cls = type(served.inner)
    code = [_code(base) for base in cls.__mro__ if not _is_base(base)]
    patches = sys.modules.get("lm_eval._patches")
    changed = None if patches is None else patches.digest(cls)
    if changed is not None:
        # A script has replaced methods of the package's classes.
        code.append(f"changed {changed}")
    if needs_identity and served.is_object and hasattr(served.inner, "_identity"):
        identity = json.dumps(served.inner._identity(), sort_keys=True, default=str)
        code.append(f"object {hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}")
    if not served.is_object and hasattr(served.inner, "_origin"):
        # Arguments do not tell whether the files of a model have changed.
        identity = json.dumps(served.inner._origin(), sort_keys=True, default=str)
        code.append(f"loaded {hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}")
    return {
        "handle": handle,
        "class": cls.__qualname__,
        "module": _module(cls),
        "code": "; ".join(dict.fromkeys(code)),
        "ignored": served.ignored,
        "multimodal": bool(getattr(served.inner, "MULTIMODAL", False)),
    }


def _file(cls: type) -> str | None:
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


def _is_installed(file: str) -> bool:
    return any(part in ("site-packages", "dist-packages") for part in file.split(os.sep))


def _module(cls: type) -> str:
    """Return the module of a class, or the file name if it is not installed: its module name is arbitrary then."""
    file = _file(cls)
    return cls.__module__ if file is None or _is_installed(file) else os.path.basename(file)


def _code(cls: type) -> str:
    """Return the version of the package that a class belongs to, or else the hash of its file."""
    package = cls.__module__.partition(".")[0]
    file = _file(cls)
    if file is None or _is_installed(file):
        from importlib import metadata

        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            version = getattr(sys.modules.get(package), "__version__", None)
            if isinstance(version, str):
                return f"{package} {version}"
    try:
        with open(file or "", "rb") as source:
            return f"{os.path.basename(file or '')} {hashlib.sha256(source.read()).hexdigest()[:16]}"
    except OSError:
        return package


class _DocumentsOfCall:
    """Fetches the documents of a call's requests from the engine, for the few models that read them."""

    def __init__(self, channel: Any, call: _Call) -> None:
        self._channel = channel
        self._call = call
        self._process = os.getpid()
        self._is_open = True

    def close(self) -> None:
        """Refuse further queries: the engine no longer waits for this call."""
        self._is_open = False

    def fetch(self, number: int) -> dict[str, Any]:
        """Return the document of a request."""
        if not self._is_open or os.getpid() != self._process:
            raise RuntimeError("The document of a request can be read only while the model's method runs, in its process")
        # The same lock as for answers: other threads must not write between the query and its reply.
        with self._call._lock:
            self._channel.write({"ask": {"kind": "document", "number": number}})
            reply = self._channel.read()
        if reply is None:
            raise SystemExit("the engine has ended")
        if "error" in reply:
            raise RuntimeError(f"The engine did not send the document of a request: {reply['error']}")
        document: dict[str, Any] = reply["ok"]
        return document


@functools.cache
def _lazy_instance(plain: Any) -> Any:
    """Return a kind of `Instance` whose `doc` may be a function, called when the document is first read."""

    class Instance(plain):
        @property
        def doc(self) -> Any:
            document = self.__dict__["_doc"]
            if isinstance(document, functools.partial):
                document = self.__dict__["_doc"] = document()
            return document

        @doc.setter
        def doc(self, document: Any) -> None:
            self.__dict__["_doc"] = document

        def __reduce__(self) -> Any:
            # A copy, in this process or another one, is a plain request.
            state = {name: value for name, value in self.__dict__.items() if name != "_doc"}
            return _plain_copy, (plain, {**state, "doc": self.doc})

    Instance.__qualname__ = plain.__qualname__
    return Instance


def _plain_copy(plain: Any, state: dict[str, Any]) -> Any:
    copied = object.__new__(plain)
    copied.__dict__.update(state)
    return copied


def _answer(worker: Any, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    served = _served[message["handle"]]
    method = message["method"]
    instance = _lazy_instance(importlib.import_module("lm_eval.api.instance").Instance)
    arguments = [_arguments(served, method, request[0]) for request in message["requests"]]
    call = _Call(method, arguments, lambda answer: worker.channel.write({"ok": answer}))
    documents = _DocumentsOfCall(worker.channel, call)
    instances = [
        instance(
            request_type=method,
            doc=functools.partial(documents.fetch, number),
            arguments=own,
            idx=request[3],
            metadata=(request[1], request[2], 1),
        )
        for number, (own, request) in enumerate(zip(arguments, message["requests"], strict=True))
    ]
    if not _changes_answers(served.inner, method):
        served.hook.follow(call)
    try:
        ask = _method(served.lm, method)
        _run(served, call, ask(instances) if served.share is None else served.share(method, ask, instances))
    except ValueError as error:
        if method == _ROLLING and len(arguments[0]) == 2 and "to unpack (expected 1" in str(error):
            raise ValueError(
                f"`{served.name}.{method}` expects requests `(text,)` ({error}), but they are "
                '`("", text)`; read `request.args[-1]`, or evaluate with `compat="0.4"` (`--compat 0.4`)'
            ) from error
        raise
    finally:
        served.hook.follow(None)
        documents.close()
    call.check(f"`{served.name}.{method}`")
    yield None


def _changes_answers(lm: Any, method: str) -> bool:
    """Whether a user's method may return answers that differ from those the overridden method hands over.

    That is the case if it calls the overridden method, or hands over nothing itself.
    """
    for name in (method, "_loglikelihood_tokens") if method != _GENERATE else (method,):
        found = [vars(lm)[name]] if name in getattr(lm, "__dict__", {}) else []
        owners = [cls for cls in type(lm).__mro__ if name in vars(cls)]
        concrete = [cls for cls in owners if not getattr(vars(cls)[name], "__isabstractmethod__", False)]
        for cls in concrete:
            if cls.__module__.partition(".")[0] == "lm_eval" and _is_packages(vars(cls)[name]):
                break
            found.append(vars(cls)[name])
        else:
            # The last one overrides nothing that could hand over answers.
            found = found[:-1]
        for function in found:
            used = _used_names(function)
            if name in used or "add_partial" not in used:
                return True
    return False


def _is_packages(function: Any) -> bool:
    """Whether a method is that of the package, not one that a script has put in its place."""
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] == "lm_eval" and not hasattr(function, "__wrapped__")


def _used_names(function: Any) -> set[str]:
    """Return the names used in the code of a function and of the functions inside it."""
    codes = [getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        if code is not None:
            names.update(code.co_names)
            codes += [constant for constant in code.co_consts if inspect.iscode(constant)]
    return names


def _method(lm: Any, name: str) -> Callable[[list[Any]], Any]:
    """Return a method of the model, without its progress bar, since the engine shows progress."""
    method = getattr(lm, name)
    try:
        has_bar = "disable_tqdm" in inspect.signature(method).parameters
    except (TypeError, ValueError):
        has_bar = False
    return functools.partial(method, disable_tqdm=True) if has_bar else method


def _run(served: Served, call: _Call, results: Any) -> None:
    """Take the answers of a method as they arrive; those of a generator one by one."""
    called, expected = f"`{served.name}.{call.method}`", len(call.arguments)
    if isinstance(results, (str, bytes, dict)) or not isinstance(results, Iterable):
        kind = type(results).__name__
        raise TypeError(
            f"{called} returned a value of type `{kind}` instead of a list with {expected} answers"
        )
    if isinstance(results, Sized) and len(results) != expected:
        raise ValueError(f"{called} returned {len(results)} answers to {expected} requests")
    count = 0
    for index, result in enumerate(results):
        if index == expected:
            raise ValueError(f"{called} returned more than {expected} answers to {expected} requests")
        call.take(index, result)
        count += 1
    if count != expected:
        raise ValueError(f"{called} returned {count} answers to {expected} requests")


def _arguments(served: Served, method: str, arguments: list[Any]) -> tuple[Any, ...]:
    if method == _ROLLING:
        return tuple(arguments)
    context, rest, *media = arguments
    if isinstance(context, tuple):
        context = served.prompt_type(context[0])
    return (context, rest, *({name: _media_of(items) for name, items in m.items()} for m in media))


def _media_of(items: Any) -> Any:
    """Return the images or sounds of a request; one alone is not a list."""
    return [_medium(item) for item in items] if isinstance(items, list) else _medium(items)


def _medium(item: Any) -> Any:
    """Return an image in the form models expect, if the library for it is installed."""
    data = item.get("bytes") if isinstance(item, dict) else item
    if not isinstance(data, (bytes, bytearray)):
        return item
    try:
        from io import BytesIO

        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return item
    try:
        return Image.open(BytesIO(data))
    except UnidentifiedImageError:
        return item


def _json_prompt(text: str) -> Any:
    """Return a conversation as the string that is sent to a server."""
    module = sys.modules.get("lm_eval.models.api_models")
    return (text,) if module is None else module.JsonChatStr(text)


def _template(worker: Any, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    served = _served[message["handle"]]
    if _is_base(_owner(type(served.inner), "apply_chat_template")):
        raise NotImplementedError(f"`{served.name}` has no method `apply_chat_template`")
    source = served.lm.chat_template(message["template"])
    yield {
        "source": None if source is None else str(source),
        "tokenizer": _tokenizer_name(served.lm),
    }


def _owner(cls: type, name: str) -> type:
    return next((base for base in cls.__mro__ if name in vars(base)), object)


def _tokenizer_name(lm: Any) -> str | None:
    try:
        return str(lm.tokenizer_name)
    except Exception:  # noqa: BLE001
        return None


def _prompt(worker: Any, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    served = _served[message["handle"]]
    add = message["add_generation_prompt"]
    prompt = served.lm.apply_chat_template(message["messages"], add_generation_prompt=add)
    if isinstance(prompt, str):
        yield _valid(prompt)
        return
    if isinstance(prompt, tuple) and len(prompt) == 1 and isinstance(prompt[0], str):
        served.prompt_type = type(prompt) if hasattr(prompt, "_fields") else lambda text: (text,)
        yield (prompt[0],)
        return
    if not isinstance(prompt, (list, tuple)):
        kind = type(prompt).__name__
        raise TypeError(
            f"`{served.name}.apply_chat_template` returned a value of type `{kind}`, not a string or messages"
        )
    yield list(prompt)


def _facts(worker: Any, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    lm = _served[message["handle"]].inner
    sizes = getattr(lm, "batch_sizes", None)
    yield {
        "config": _config(lm),
        "tokenizer": _tokenizer(lm),
        "batch_sizes": [int(size) for size in sizes.values()] if isinstance(sizes, dict) else [],
        "device": _device(lm),
    }


def _device(lm: Any) -> str | None:
    try:
        device = getattr(lm, "device", None)
        return None if device is None else str(device)
    except Exception:  # noqa: BLE001
        return None


def _config(lm: Any) -> dict[str, Any]:
    try:
        return {str(name): _plain(value) for name, value in lm.get_model_info().items()}
    except Exception:  # noqa: BLE001
        return {}


def _tokenizer(lm: Any) -> dict[str, Any]:
    if isinstance(inspect.getattr_static(lm, "tokenizer", None), functools.cached_property):
        # A tokenizer that has not been used yet is not loaded just for its name.
        return {}
    try:
        tokenizer = getattr(lm, "tokenizer", None)
        if not tokenizer:
            return {}
        facts: dict[str, Any] = {
            f"tokenizer_{kind}_token": [
                _plain(getattr(tokenizer, f"{kind}_token")),
                str(getattr(tokenizer, f"{kind}_token_id")),
            ]
            for kind in ("pad", "eos", "bos")
        }
        facts["eot_token_id"] = _plain(getattr(lm, "eot_token_id", None))
        facts["max_length"] = _plain(getattr(lm, "max_length", None))
    except Exception:  # noqa: BLE001
        return {}
    return facts


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent, or else its string form."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _distributions(worker: Any, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yield the tokens of each request, and the probabilities in the place of each scored one."""
    served = _served[message["handle"]]
    ask = getattr(served.inner, "_distributions", None)
    if ask is None:
        raise NotImplementedError(f"`{served.name}` does not return the probabilities of tokens")
    yield from ask([tuple(request) for request in message["requests"]], message["share"], message["most"])
    yield None


OPERATIONS = {
    "model_distributions": _distributions,
    "model_names": _names,
    "model_open": _open,
    "model_answer": _answer,
    "model_template": _template,
    "model_prompt": _prompt,
    "model_facts": _facts,
}
