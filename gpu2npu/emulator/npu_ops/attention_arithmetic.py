"""The arithmetic of flash attention: layouts, grouped heads, masks by sparse mode, dropout, and the gradient.

Scores, softmax and the products are float32; the result is rounded once to the input's dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide

FAR = 2147483647
_COMPRESSED = 2048  # rows and columns of the triangular mask that the causal modes want
BLOCK = 8  # the statistics are repeated along a last dimension of 8, a block of 32 bytes
_MOST_SCORES = 1 << 16  # that are computed together, of as many batches as have them
_MASK_MODES = (0, 1, 5)  # these take the mask itself; the others only its shape
VARLEN = "TND"


@dataclass(frozen=True)
class Masking:
    """The choice of the scores that count: the attention mask, the sparse mode, and the band it may need."""

    mask: Array | None
    mode: int
    before: int
    after: int
    prefix: Sequence[int] | None = None
    sequences: int = 1

    def __post_init__(self) -> None:
        if self.mask is None or self.mode not in (2, 3, 4, 7, 8):
            return
        if self.mask[..., -1, 0].any() or not self.mask[..., 0, -1].all():
            raise NotImplementedError(
                f"sparse_mode {self.mode} with another mask than torch.triu(torch.ones(2048, 2048), diagonal=1).bool()"
            )

    def hidden(self, batch: int, count: int, rows: int, columns: int) -> Array | None:
        """True where a score of `count` batches is hidden, broadcasting to (count, heads, rows, columns), or None."""
        if self.mask is None:  # then neither sparse_mode nor the tokens matter
            return None
        if self.mode in _MASK_MODES:
            mask = self.mask.astype(bool)
            if mask.ndim == 4 and mask.shape[0] > 1:
                mask = mask[batch : batch + count]
            mask = mask[..., :rows, :columns]
            if mask.shape[-2:] != (rows, columns):
                raise RuntimeError(f"atten_mask of shape {list(self.mask.shape)} does not cover {rows} x {columns}")
            return mask | ~self._band(rows, columns, 0) if self.mode == 0 else mask
        lag = columns - rows
        row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
        at_edge = batch == (self.sequences - 1 if self.mode == 7 else 0)
        if self.mode == 4 or (self.mode in (7, 8) and at_edge):
            return ~self._band(rows, columns, lag)
        causal: Array = column > row + (0 if self.mode in (2, 8) else lag)
        if self.mode == 6:
            assert self.prefix is not None
            causal = causal & (column >= np.reshape(self.prefix[batch : batch + count], (-1, 1, 1, 1)))
        return causal

    def _band(self, rows: int, columns: int, lag: int) -> Array:
        distance = np.arange(columns)[None, :] - np.arange(rows)[:, None] - lag
        seen: Array = (distance >= -self.before) & (distance <= self.after)
        return seen


@dataclass(frozen=True)
class Dropout:
    """The probabilities that dropout keeps, drawn again from the same seed by the backward pass."""

    keep: float
    seed: int = 0
    generators: list[np.random.Generator] = field(default_factory=list)

    def factor(self, shape: tuple[int, ...]) -> Array | None:
        """0 or 1 / keep for the next block of probabilities; None where everything is kept."""
        if self.keep >= 1:
            return None
        if not self.generators:
            self.generators.append(np.random.Generator(np.random.Philox(self.seed)))
        return (self.generators[0].random(shape, np.float32) < self.keep).astype(np.float32) / np.float32(self.keep)


def _by_head(x: Array, layout: str, heads: int) -> Array:
    """(B, N, S, D) of a tensor in one of the layouts with a batch."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(0, 2, 1, 3)
    if layout == "BSH":
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2, 0, 3)  # SBH


def _back(x: Array, layout: str) -> Array:
    """The inverse of `_by_head`."""
    if layout == "BNSD":
        return x
    if layout == "SBH":
        return x.transpose(2, 0, 1, 3).reshape(x.shape[2], x.shape[0], -1)
    x = x.transpose(0, 2, 1, 3)
    return x if layout == "BSND" else x.reshape(*x.shape[:2], -1)


def kv_heads(query: Array, key: Array, layout: str, heads: int) -> int:
    """Return the number of heads that key and value have."""
    if layout in ("BSH", "SBH"):
        return key.shape[2] // max(query.shape[2] // heads, 1)
    return key.shape[2 if layout == "BSND" else 1]


@dataclass
class Sequences:
    """Query, key, value (and what is like the query) cut into parts (B, heads, S, D), in float32: some batches each.

    Of the layout TND each sequence is a part, with a B of 1.
    """

    layout: str
    heads: int
    query_ends: Sequence[int] | None
    key_ends: Sequence[int] | None

    def __post_init__(self) -> None:
        self.layout = self.layout.upper()

    def batches(self, query: Array, key: Array, mode: int) -> int:
        """Return how many batches a part has."""
        axis = {"BNSD": 2, "SBH": 0}.get(self.layout, 1)
        single_batch = self.layout == VARLEN or mode in (7, 8)  # of which the first batch has another mask
        return 1 if single_batch else max(_MOST_SCORES // max(query.shape[axis] * key.shape[axis] * self.heads, 1), 1)

    def of_query(self, x: Array, batches: int) -> list[Array]:
        return list(self._cut(x, self.query_ends, self.heads, batches))

    def of_key(self, x: Array, heads: int, batches: int) -> list[Array]:
        return list(self._cut(x, self.key_ends, heads, batches))

    def _cut(self, x: Array, ends: Sequence[int] | None, heads: int, batches: int) -> Iterator[Array]:
        start = 0
        if self.layout != VARLEN:
            by_head = wide(_by_head(x, self.layout, heads))
            for start in range(0, len(by_head) or 1, batches):
                yield by_head[start : start + batches]
            return
        for end in ends or ():
            yield wide(x[start:end]).transpose(1, 0, 2)[None]
            start = end

    def of_statistics(self, x: Array, batches: int) -> list[Array]:
        """(B, heads, S, 1) of each part, of what `statistics` gives."""
        if self.layout == VARLEN:
            return [part[..., :1] for part in self.of_query(x, 1)]
        return [x[start : start + batches, ..., :1] for start in range(0, len(x) or 1, batches)]

    def joined(self, parts: list[Array], like: Array) -> Array:
        """The parts put back where they came from, in `like`'s dtype."""
        if self.layout == VARLEN:
            values = np.concatenate([part[0].transpose(1, 0, 2) for part in parts])
            result = np.zeros((like.shape[0], *values.shape[1:]), like.dtype)
            result[: len(values)] = values
            return result
        return rounded(_back(_whole(parts), self.layout), like.dtype)

    def statistics(self, parts: list[Array], total: int) -> Array:
        """(B, N, S, 8), or (T, N, 8), of each row's number."""
        if self.layout == VARLEN:
            rows = np.concatenate([part[0].transpose(1, 0, 2) for part in parts])
            padded = np.zeros((total, *rows.shape[1:]), np.float32)
            padded[: len(rows)] = rows
        else:
            padded = _whole(parts)
        return np.ascontiguousarray(np.broadcast_to(padded, (*padded.shape[:-1], BLOCK)))


def _whole(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Attention:
    """One call's constants."""

    scale: float
    masking: Masking
    dropout: Dropout
    pse: Array | None = None
    pse_after_scale: bool = False

    def position(self, batch: int, count: int, rows: int) -> Array | None:
        """The position encoding of `count` batches, broadcasting to (count, heads, rows, columns)."""
        if self.pse is None:
            return None
        if self.pse.ndim != 4 or self.pse.shape[2] not in (1, rows):
            raise NotImplementedError(f"a compressed pse, of shape {list(self.pse.shape)}")
        return wide(self.pse[batch : batch + count] if self.pse.shape[0] > 1 else self.pse)

    def probabilities(
        self, q: Array, k: Array, batch: int, statistics: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array, Array]:
        """Softmax (B, heads, rows, columns) from `batch` on, and the rows' maxima and sums; 0 where a row sees nothing.

        `statistics` are the maxima and sums to use: those of whole rows, where these columns are a part of them.
        """
        count, rows, columns = len(q), q.shape[2], k.shape[2]
        position = self.position(batch, count, rows)
        if position is None or self.pse_after_scale:
            scores = np.matmul(q * np.float32(self.scale), k.swapaxes(-1, -2))
            if position is not None:
                scores += position
        else:
            scores = np.matmul(q, k.swapaxes(-1, -2))
            scores += position
            scores *= np.float32(self.scale)
        hidden = self.masking.hidden(batch, count, rows, columns)
        if hidden is not None:
            np.copyto(scores, np.float32(-np.inf), where=hidden)
        if statistics is None:
            largest = np.maximum.reduce(scores, axis=-1, keepdims=True, initial=-np.inf)
            largest = np.where(np.isneginf(largest), np.float32(0), largest)
        else:
            largest = statistics[0]
        scores -= largest
        np.exp(scores, out=scores)
        total = np.add.reduce(scores, axis=-1, keepdims=True) if statistics is None else statistics[1]
        scores /= np.where(total == 0, np.float32(1), total)
        return scores, largest, total


def repeated(x: Array, heads: int) -> Array:
    """Key or value heads repeated for the query heads that share them."""
    return x if x.shape[1] == heads else np.repeat(x, heads // x.shape[1], axis=1)


def summed_over_shared(x: Array, heads: int) -> Array:
    """The inverse for gradients: the sum over the query heads that share a key or value head."""
    return x if x.shape[1] == heads else x.reshape(len(x), heads, x.shape[1] // heads, *x.shape[2:]).sum(axis=2)


def forward(
    sequences: Sequences, attention: Attention, query: Array, key: Array, value: Array
) -> tuple[Array, Array, Array]:
    """The result in the query's layout and dtype, and the rows' maxima and sums."""
    shared = kv_heads(query, key, sequences.layout, sequences.heads)
    parts, maxima, sums = [], [], []
    many = sequences.batches(query, key, attention.masking.mode)
    triples = zip(
        sequences.of_query(query, many),
        sequences.of_key(key, shared, many),
        sequences.of_key(value, shared, many),
        strict=True,
    )
    for part, (q, k, v) in enumerate(triples):
        p, largest, total = attention.probabilities(q, repeated(k, sequences.heads), part * many)
        factor = attention.dropout.factor(p.shape)
        if factor is not None:
            p *= factor
        parts.append(np.matmul(p, repeated(v, sequences.heads)))
        maxima.append(largest)
        sums.append(total)
    total = query.shape[0]
    return sequences.joined(parts, query), sequences.statistics(maxima, total), sequences.statistics(sums, total)


@dataclass(frozen=True)
class Saved:
    """The maxima, sums and result of the forward pass, which the gradient takes in place of its own.

    In ring attention they are of all keys, of which the gradient has a part.
    """

    largest: Array | None = None
    total: Array | None = None
    result: Array | None = None


def backward(
    sequences: Sequences, attention: Attention, query: Array, key: Array, value: Array, dy: Array, saved: Saved
) -> tuple[Array, Array, Array, Array | None]:
    """Gradients for query, key, value and the position encoding; the probabilities are computed again."""
    heads, shared = sequences.heads, kv_heads(query, key, sequences.layout, sequences.heads)
    pse = attention.pse
    dqs, dks, dvs = [], [], []
    dpse = None if pse is None else np.zeros(pse.shape, np.float32)
    statistics = None
    many = sequences.batches(query, key, attention.masking.mode)
    if saved.largest is not None and saved.total is not None:
        both = sequences.of_statistics(saved.largest, many), sequences.of_statistics(saved.total, many)
        statistics = list(zip(*both, strict=True))
    results = None if saved.result is None else sequences.of_query(saved.result, many)
    cut = zip(
        sequences.of_query(query, many),
        sequences.of_key(key, shared, many),
        sequences.of_key(value, shared, many),
        sequences.of_query(dy, many),
        strict=True,
    )
    for part, (q, k, v, g) in enumerate(cut):
        batch = part * many
        wide_k = repeated(k, heads)
        p, _, _ = attention.probabilities(q, wide_k, batch, statistics[part] if statistics else None)
        factor = attention.dropout.factor(p.shape)
        retained = p if factor is None else p * factor
        dvs.append(summed_over_shared(np.matmul(retained.swapaxes(-1, -2), g), shared))
        dp = np.matmul(g, repeated(v, heads).swapaxes(-1, -2))
        if factor is not None:
            dp *= factor
        weighed = dp * p if results is None else g * results[part]
        dp -= np.add.reduce(weighed, axis=-1, keepdims=True)
        ds = np.multiply(dp, p, out=dp)
        if dpse is not None and pse is not None:
            moved = ds if attention.pse_after_scale else ds * np.float32(attention.scale)
            wanted = (len(ds) if pse.shape[0] > 1 else 1, *pse.shape[1:])
            summed = tuple(axis for axis in range(4) if wanted[axis] == 1)
            dpse[batch if pse.shape[0] > 1 else 0 :][: wanted[0]] += moved.sum(axis=summed, keepdims=True)
        scale = np.float32(attention.scale)
        dqs.append(np.matmul(ds, wide_k) * scale)
        dks.append(summed_over_shared(np.matmul(ds.swapaxes(-1, -2), q * scale), shared))
    grads = sequences.joined(dqs, query), sequences.joined(dks, key), sequences.joined(dvs, value)
    return *grads, None if dpse is None or pse is None else rounded(dpse, pse.dtype)
