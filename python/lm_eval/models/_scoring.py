"""Log-likelihoods of an `HFLM`: plans what to compute, and reads the answers from logits."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lm_eval._lazy import require
from lm_eval.models._plan import Family, Row, Target, batches, families
from lm_eval.models.utils_hf import clear_torch_cache, pad_and_concat
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

logger = logging.getLogger(__name__)

SHARED_FROM = 64
"""The minimum number of tokens saved to compute a context separately: two passes cost more than one."""

_ROLLING_CHUNK = 256
_LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope", "su")


def out_of_memory(torch: Any) -> type[Exception]:
    """Return the out-of-memory error, which torch before 2.5 defines elsewhere."""
    found: type[Exception] = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    return found


def bar(total: int, name: str, is_off: bool) -> Any:
    """Return a progress bar."""
    return require("tqdm", "A progress bar").tqdm(total=total, desc=name, disable=is_off)


def score(lm: HFLM, requests: list[Any], is_quiet: bool, override: int | None) -> list[tuple[float, bool]]:
    """Return `(log-likelihood, is greedy)` of each `(strings, context tokens, continuation tokens)`."""
    scorer = Scorer(lm, requests, override)
    with bar(len(requests), "Running loglikelihood requests", is_quiet) as progress:
        for done in scorer.run():
            progress.update(done)
    return scorer.answers


def score_rolling(lm: HFLM, requests: list[Instance[Any, Any]], is_quiet: bool) -> list[Any]:
    """Return the log-likelihoods of entire strings, in parts so that answers are handed over early."""
    answers: list[Any] = []
    with bar(len(requests), "Running loglikelihood_rolling requests", is_quiet) as progress:
        for some in batches(requests, lambda _: _ROLLING_CHUNK):
            windows: list[tuple[None, list[int], list[int]]] = []
            owners: list[int] = []
            for number, request in enumerate(some):
                for context, predicted in get_rolling_token_windows(
                    lm.tok_encode(request.args[-1]), lm.prefix_token_id, lm.max_length, context_len=1
                ):
                    windows.append((None, *make_disjoint_window((context, predicted))))
                    owners.append(number)
            sums = [0.0] * len(some)
            for number, (value, _) in zip(
                owners, lm._loglikelihood_tokens(windows, disable_tqdm=True), strict=True
            ):
                sums[number] += value
            for request, value in zip(some, sums, strict=True):
                answer = value if len(request.args) == 1 else (value, False)
                lm.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
                answers.append(answer)
            progress.update(len(some))
    return answers


class Scorer:
    """One call of `_loglikelihood_tokens`."""

    def __init__(self, lm: HFLM, requests: list[Any], override: int | None) -> None:
        self.lm = lm
        self.torch = require("torch", "`HFLM`")
        self.strings = [request[0] for request in requests]
        self.pairs = [self._checked(*request) for request in requests]
        self.answers: list[Any] = [None] * len(requests)
        self.override = override
        self.out_of_memory = out_of_memory(self.torch)
        self._rows_from: Any = None

    def _checked(self, strings: Any, context: Any, continuation: Any) -> tuple[list[int], list[int]]:
        context, continuation = list(context), list(continuation)
        if not continuation:
            raise ValueError(f"A continuation has no tokens: {strings!r}")
        if len(continuation) > self.lm.max_length:
            raise ValueError(
                f"A continuation has {len(continuation)} tokens, but the model's maximum length is "
                f"{self.lm.max_length}: {strings!r}"
            )
        # Whitespace alone moves to the continuation, so a context may become empty.
        return context or [self.lm.prefix_token_id], continuation

    def run(self) -> Any:
        """Answer all requests; yields the number of answers, batch by batch."""
        if self.lm.backend != "causal":
            yield from self._decoders()
            return
        longest = max((len(context) + len(rest) for context, rest in self.pairs), default=0)
        if longest > self.lm.max_length + 1:
            logger.warning(
                "Sequences of up to %d tokens are truncated on the left: the model's maximum length is %d",
                longest,
                self.lm.max_length,
            )
        plan = families(self.pairs, self.lm.max_length, share=self.lm.logits_cache)
        shared = [family for family in plan if family.saved >= SHARED_FROM] if self._can_share() else []
        kept = {id(family) for family in shared}
        rows = [row for family in plan if id(family) not in kept for row in family.rows]
        size = self._size([_longest(family).request for family in plan])
        indices = {id(row): index for index, family in enumerate(plan) for row in family.rows}
        self._rows_from = lambda row: size(indices[id(row)])
        for _, group in itertools.groupby(shared, key=lambda family: len(family.context)):
            yield from self._shared(list(group))
        rows.sort(key=lambda row: (-len(row.tokens), row.tokens))
        yield from self._plain(rows)

    def _size(self, order: list[int]) -> Any:
        """Return the function that gives the batch size at an index of these requests, longest first."""
        if self.override is not None:
            return lambda _: self.override
        if self.lm.batch_size == "auto":
            self.lm._forget_batch_sizes()
        requests = [(self.strings[number], *self.pairs[number]) for number in order]
        return lambda position: self.lm._batch_scheduler(position, requests)

    def _plain(self, rows: list[Row]) -> Any:
        for batch in batches(rows, lambda position: self._rows_from(rows[position])):
            yield from self._rows(batch)

    def _rows(self, rows: list[Row]) -> Any:
        """Score rows, in halves when out of memory."""
        try:
            logits = self._logits(rows)
        except self.out_of_memory:
            if len(rows) == 1:
                raise
            logits = None
        if logits is None:
            clear_torch_cache()
            half = len(rows) // 2
            yield from self._rows(rows[:half])
            yield from self._rows(rows[half:])
            return
        width = max(len(row.tokens) for row in rows)
        for row, of_row in zip(rows, logits, strict=True):
            # Virtual tokens that a model prepends shift the positions.
            end = len(row.tokens) + of_row.shape[0] - width
            selected = self.lm._select_cont_toks(of_row, contlen=row.scored, inplen=end)
            yield self._read(row.targets, selected)

    def _logits(self, rows: list[Row]) -> Any:
        width = max(len(row.tokens) for row in rows)
        tensors = [self.torch.tensor(row.tokens, dtype=self.torch.long) for row in rows]
        tokens = pad_and_concat(width, tensors).to(self.lm.device)
        # A subclass may compute logits as in training.
        with self.torch.no_grad():
            return self.lm._model_call(tokens)

    def _read(self, targets: list[Target], logits: Any) -> int:
        """Answer the requests of a row from the logits before its last tokens."""
        torch = self.torch
        logprobs = torch.log_softmax(logits, dim=-1, dtype=self.lm.softmax_dtype)
        likely = logprobs.argmax(dim=-1)
        for target in targets:
            count = len(target.tokens)
            tokens = torch.tensor(target.tokens, dtype=torch.long, device=logprobs.device)
            chosen = logprobs[-count:].gather(1, tokens.unsqueeze(1))
            self._answer(target.request, float(chosen.sum()), bool((likely[-count:] == tokens).all()))
        return len(targets)

    def _answer(self, request: int, value: float, is_greedy: bool) -> None:
        self.answers[request] = (value, is_greedy)
        if self.strings[request] is not None:
            self.lm.cache_hook.add_partial("loglikelihood", self.strings[request], (value, is_greedy))

    def _decoders(self) -> Any:
        """Score requests with an encoder for contexts and a decoder for continuations."""
        torch, lm = self.torch, self.lm
        order = sorted(range(len(self.pairs)), key=lambda number: [-len(part) for part in self.pairs[number]])
        size = self._size(order)
        for batch in batches(order, size):
            contexts = [torch.tensor(self.pairs[number][0][-lm.max_length :]) for number in batch]
            replies = [torch.tensor(self.pairs[number][1]) for number in batch]
            tokens = pad_and_concat(max(map(len, contexts)), contexts).to(lm.device)
            mask = pad_and_concat(max(map(len, contexts)), [torch.ones_like(row) for row in contexts]).to(
                lm.device
            )
            labels = pad_and_concat(max(map(len, replies)), replies).to(lm.device)
            with torch.no_grad():
                logits = lm._model_call(tokens, attn_mask=mask, labels=labels)
            for number, of_row in zip(batch, logits, strict=True):
                continuation = self.pairs[number][1]
                selected = lm._select_cont_toks(of_row, contlen=len(continuation))
                yield self._read([Target(number, tuple(continuation))], selected)

    def _can_share(self) -> bool:
        """Whether the model can continue from a cached context, and no subclass computes logits differently."""
        from lm_eval.models.huggingface import HFLM

        lm = self.lm
        if not lm.logits_cache or lm._shares_contexts is False:
            return False
        if not isinstance(lm.pretrained, str) and lm._shares_contexts is None:
            # A caller's module may count on its passes, as calibration does: it gets each sequence from its start.
            return False
        own = (type(lm)._model_call, type(lm)._select_cont_toks)
        if own != (HFLM._model_call, HFLM._select_cont_toks) or "_model_call" in vars(lm):
            return False
        if not getattr(lm.model, "_supports_cache_class", True) or not hasattr(lm.config, "to_dict"):
            return False
        rope = str([value for key, value in lm.config.to_dict().items() if "rope" in key])
        # With these, a token's rotation depends on the length of the entire sequence.
        return not any(f"'{kind}'" in rope for kind in _LENGTH_DEPENDENT_ROPE)

    def _shared(self, group: list[Family]) -> Any:
        """Score families with contexts of the same length: first the contexts, then the rest of their rows."""

        def size(position: int) -> int:
            rows = group[position].rows
            return int(self._rows_from(rows[0])) // len(rows)

        for batch in batches(group, size):
            if self.lm._shares_contexts is None:
                self.lm._shares_contexts = self._agrees(batch[0])
            logits = self._tails(batch) if self.lm._shares_contexts else None
            if logits is None:
                yield from self._plain([row for family in batch for row in family.rows])
                continue
            for row, selected in logits:
                yield self._read(row.targets, selected)

    def _tails(self, batch: list[Family]) -> list[tuple[Row, Any]] | None:
        """Return the logits of each row of families, or `None` when out of memory."""
        torch, lm = self.torch, self.lm
        try:
            with lm._computing():
                contexts = torch.tensor([family.context for family in batch], device=lm.device)
                first = lm.model(contexts, use_cache=True)
                last = first.logits[:, -1:].clone()
                cache = first.past_key_values
                del first
                rows = [
                    (number, row, family.tail(row))
                    for number, family in enumerate(batch)
                    for row in family.rows
                ]
                going_on = [entry for entry in rows if entry[2]]
                following: dict[int, Any] = {}
                if going_on:
                    cache.batch_select_indices(
                        torch.tensor([number for number, _, _ in going_on], device=lm.device)
                    )
                    width = max(len(tail) for _, _, tail in going_on)
                    tails = [torch.tensor(tail, dtype=torch.long) for _, _, tail in going_on]
                    logits = lm.model(
                        pad_and_concat(width, tails).to(lm.device), past_key_values=cache
                    ).logits
                    following = {id(entry[1]): of_row for entry, of_row in zip(going_on, logits, strict=True)}
                answers = []
                for number, row, tail in rows:
                    parts = [last[number], following[id(row)][: len(tail)]] if tail else [last[number]]
                    answers.append((row, torch.cat(parts)))
                return answers
        except self.out_of_memory:
            pass
        clear_torch_cache()
        return None

    def _agrees(self, family: Family) -> bool:
        """Whether logits are the same with a cached context as without; tested once, on the longest context."""
        torch = self.torch
        try:
            shared = self._tails([family])
        except Exception as error:  # noqa: BLE001
            logger.info("Contexts are not shared: %s", error)
            return False
        if shared is None:
            return False
        row, selected = max(shared, key=lambda entry: len(entry[0].tokens))
        whole = self._logits([row])[0][-selected.shape[0] :]
        close = 1e-3 if whole.dtype == torch.float32 else 0.25
        agrees = bool(torch.allclose(whole.float(), selected.float(), rtol=close, atol=close))
        if not agrees:
            logger.warning(
                "Contexts are not shared: the model gives different logits when continuing from a cached context"
            )
        return agrees


class Distributions(Scorer):
    """Passes on the probabilities of all tokens in the place of each scored one."""

    def __init__(
        self, lm: HFLM, requests: list[Any], owners: list[tuple[int, int]], share: float, most: int
    ) -> None:
        super().__init__(lm, requests, None)
        self._owners = owners
        self._share = share
        self._most = most
        self._parts: list[Any] = []

    def parts(self) -> Iterator[Any]:
        """Yield the parts of all requests, batch by batch."""
        for _ in self.run():
            yield from self._parts
            self._parts = []

    def _read(self, targets: list[Target], logits: Any) -> int:
        torch = self.torch
        logprobs = torch.log_softmax(logits.double(), dim=-1).cpu()
        for target in targets:
            index, before = self._owners[target.request]
            count = len(target.tokens)
            for position, (token, row) in enumerate(zip(target.tokens, logprobs[-count:], strict=True)):
                self._parts.append([index, before + position, float(row[token]), *self._kept(row)])
        return len(targets)

    def _kept(self, row: Any) -> tuple[bytes, bytes, float]:
        """Return ids and log-probabilities of the likely tokens as bytes, and the probability of all others."""
        torch = self.torch
        if self._share >= 1 and self._most >= row.shape[0]:
            # All tokens need no ids.
            return b"", row.float().numpy().astype("<f4").tobytes(), 0.0
        sorted_row, order = row.sort(descending=True, stable=True)
        mass = sorted_row.exp().cumsum(0)
        count = int((mass < self._share).sum()) + 1
        count = min(count, self._most, row.shape[0])
        ids = order[:count].sort().values
        rest = max(0.0, float(sorted_row[count:].exp().sum()))
        ids_bytes = ids.to(torch.int32).numpy().astype("<u4").tobytes()
        return ids_bytes, row[ids].float().numpy().astype("<f4").tobytes(), rest


def distributions(lm: HFLM, requests: list[tuple[Any, ...]], share: float, most: int) -> Iterator[Any]:
    """Yield the tokens of each request, `(context, continuation)` or `(text,)`, and its distributions."""
    pairs: list[tuple[None, list[int], list[int]]] = []
    owners: list[tuple[int, int]] = []
    for index, request in enumerate(requests):
        if len(request) == 1:
            tokens = lm.tok_encode(request[0])
            windows = get_rolling_token_windows(tokens, lm.prefix_token_id, lm.max_length, context_len=1)
            found = [make_disjoint_window(window) for window in windows]
        elif len(request) == 2 and isinstance(request[0], str):
            found = [lm._encode_alone(request[1]) if request[0] == "" else lm._encode_pair(*request)]
        else:
            yield [index, "only strings have tokens to compare"]
            continue
        whole: list[int] = []
        before = 0
        for context, continuation in found:
            context = list(context) or [lm.prefix_token_id]
            whole += continuation if whole else (context + list(continuation))[-(lm.max_length + 1) :]
            owners.append((index, before))
            pairs.append((None, context, list(continuation)))
            before += len(continuation)
        yield [index, whole, before]
    yield from Distributions(lm, pairs, owners, share, most).parts()


def _longest(family: Family) -> Target:
    """Return a request of the longest row."""
    return max(family.rows, key=lambda row: len(row.tokens)).targets[0]
