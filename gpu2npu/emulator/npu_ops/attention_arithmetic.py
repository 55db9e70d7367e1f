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
        if self.mask is None:
            return
        if not 0 <= self.mode <= 8:
            raise RuntimeError(f"sparse_mode must be 0 to 8, but got {self.mode}")
        if self.mode in (2, 3, 4, 7, 8):
            compressed = self.mask.shape[-2:] == (_COMPRESSED, _COMPRESSED)
            if not compressed or self.mask[..., -1, 0].any() or not self.mask[..., 0, -1].all():
                raise RuntimeError(
                    f"sparse_mode {self.mode} needs atten_mask = torch.triu(torch.ones(2048, 2048), diagonal=1).bool()"
                    f", but got one of shape {list(self.mask.shape)}"
                )

    def hidden(self, batch: int, rows: int, columns: int) -> Array | None:
        """True where a score is masked out, broadcasting to (heads, rows, columns); None if none is."""
        if self.mask is None:  # then neither sparse_mode nor the tokens matter
            return None
        if self.mode in _MASK_MODES:
            mask = self.mask.astype(bool)
            if mask.ndim == 4:
                mask = mask[batch if mask.shape[0] > 1 else 0]
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
            if self.prefix is None:
                raise RuntimeError("sparse_mode 6 needs prefix, the columns that every row of a batch sees")
            causal &= column >= self.prefix[batch]
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
    if layout == "SBH":
        return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2, 0, 3)
    raise RuntimeError(f"The input_layout should be BSH/SBH/BNSD/BSND/TND(case-insensitive), but got {layout}")


def _back(x: Array, layout: str) -> Array:
    """The inverse of `_by_head`."""
    if layout == "BNSD":
        return x
    if layout == "SBH":
        return x.transpose(2, 0, 1, 3).reshape(x.shape[2], x.shape[0], -1)
    x = x.transpose(0, 2, 1, 3)
    return x if layout == "BSND" else x.reshape(*x.shape[:2], -1)


def kv_heads(query: Array, key: Array, layout: str, heads: int) -> int:
    """Return the number of heads that key and value have.

    Raises:
        RuntimeError: They do not divide the query's, or the query has others than `heads`.
    """
    axis = {"BNSD": 1, "BSND": 2, VARLEN: 1}.get(layout)
    if axis is not None and query.shape[axis] != heads:
        raise RuntimeError(f"head_num is {heads}, but query of shape {list(query.shape)} has {query.shape[axis]} heads")
    if layout in ("BSH", "SBH"):
        found = key.shape[2] // max(query.shape[2] // heads, 1)
    else:
        found = key.shape[1 if axis is None else axis]
    if not found or heads % found:
        raise RuntimeError(f"head_num {heads} must be a multiple of the {found} heads of key and value")
    return found


@dataclass
class Sequences:
    """Query, key, value (and what else lies like the query) cut into sequences of (heads, S, D), in float32."""

    layout: str
    heads: int
    query_ends: Sequence[int] | None
    key_ends: Sequence[int] | None

    def __post_init__(self) -> None:
        self.layout = self.layout.upper()
        if self.layout == VARLEN and not (self.query_ends and self.key_ends):
            raise RuntimeError("input_layout TND needs actual_seq_qlen and actual_seq_kvlen")

    def of_query(self, x: Array) -> list[Array]:
        return list(self._cut(x, self.query_ends, self.heads))

    def of_key(self, x: Array, heads: int) -> list[Array]:
        return list(self._cut(x, self.key_ends, heads))

    def _cut(self, x: Array, ends: Sequence[int] | None, heads: int) -> Iterator[Array]:
        if self.layout != VARLEN:
            yield from wide(_by_head(x, self.layout, heads))
            return
        start = 0
        for end in ends or ():
            yield wide(x[start:end]).transpose(1, 0, 2)
            start = end

    def of_statistics(self, x: Array) -> list[Array]:
        """(heads, S, 1) of each sequence, of what `statistics` gives."""
        return [part[..., :1] for part in (self.of_query(x) if self.layout == VARLEN else x)]

    def joined(self, parts: list[Array], like: Array) -> Array:
        """The sequences (heads, S, D) put back where they came from, in `like`'s dtype."""
        if self.layout == VARLEN:
            values = np.concatenate([part.transpose(1, 0, 2) for part in parts])
            result = np.zeros((like.shape[0], *values.shape[1:]), like.dtype)
            result[: len(values)] = values
            return result
        return rounded(_back(np.stack(parts), self.layout), like.dtype)

    def statistics(self, parts: list[Array], total: int) -> Array:
        """(B, N, S, 8), or (T, N, 8), of each row's number."""
        if self.layout == VARLEN:
            rows = np.concatenate([part.transpose(1, 0, 2) for part in parts])
            padded = np.zeros((total, *rows.shape[1:]), np.float32)
            padded[: len(rows)] = rows
        else:
            padded = np.stack(parts)
        return np.ascontiguousarray(np.broadcast_to(padded, (*padded.shape[:-1], BLOCK)))


@dataclass(frozen=True)
class Attention:
    """One call's constants."""

    scale: float
    masking: Masking
    dropout: Dropout
    pse: Array | None = None
    pse_after_scale: bool = False

    def position(self, batch: int, rows: int) -> Array | None:
        """The position encoding of one sequence, broadcasting to (heads, rows, columns)."""
        if self.pse is None:
            return None
        if self.pse.ndim != 4 or self.pse.shape[2] not in (1, rows):
            raise NotImplementedError(f"a compressed pse, of shape {list(self.pse.shape)}")
        return wide(self.pse[batch if self.pse.shape[0] > 1 else 0])

    def probabilities(
        self, q: Array, k: Array, batch: int, statistics: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array, Array]:
        """Softmax (heads, rows, columns), and each row's maximum and sum; rows that see nothing are 0.

        `statistics` are the maxima and sums to use: those of whole rows, where these columns are a part of them.
        """
        scores = np.matmul(q, k.swapaxes(-1, -2))
        position = self.position(batch, q.shape[1])
        if position is not None and not self.pse_after_scale:
            scores += position
        scores *= np.float32(self.scale)
        if position is not None and self.pse_after_scale:
            scores += position
        hidden = self.masking.hidden(batch, q.shape[1], k.shape[1])
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
    return x if x.shape[0] == heads else np.repeat(x, heads // x.shape[0], axis=0)


def summed_over_shared(x: Array, heads: int) -> Array:
    """The inverse for gradients: the sum over the query heads that share a key or value head."""
    return x if x.shape[0] == heads else x.reshape(heads, -1, *x.shape[1:]).sum(axis=1)


def forward(
    sequences: Sequences, attention: Attention, query: Array, key: Array, value: Array
) -> tuple[Array, Array, Array]:
    """The result in the query's layout and dtype, and the rows' maxima and sums."""
    shared = kv_heads(query, key, sequences.layout, sequences.heads)
    parts, maxima, sums = [], [], []
    triples = zip(
        sequences.of_query(query), sequences.of_key(key, shared), sequences.of_key(value, shared), strict=True
    )
    for batch, (q, k, v) in enumerate(triples):
        p, largest, total = attention.probabilities(q, repeated(k, sequences.heads), batch)
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
    if saved.largest is not None and saved.total is not None:
        pairs = zip(sequences.of_statistics(saved.largest), sequences.of_statistics(saved.total), strict=True)
        statistics = list(pairs)
    results = None if saved.result is None else sequences.of_query(saved.result)
    cut = zip(
        sequences.of_query(query),
        sequences.of_key(key, shared),
        sequences.of_key(value, shared),
        sequences.of_query(dy),
        strict=True,
    )
    for batch, (q, k, v, g) in enumerate(cut):
        wide_k = repeated(k, heads)
        p, _, _ = attention.probabilities(q, wide_k, batch, statistics[batch] if statistics else None)
        factor = attention.dropout.factor(p.shape)
        retained = p if factor is None else p * factor
        dvs.append(summed_over_shared(np.matmul(retained.swapaxes(-1, -2), g), shared))
        dp = np.matmul(g, repeated(v, heads).swapaxes(-1, -2))
        if factor is not None:
            dp *= factor
        weighed = dp * p if results is None else g * results[batch]
        ds = p * (dp - np.add.reduce(weighed, axis=-1, keepdims=True))
        if dpse is not None and pse is not None:
            part = ds if attention.pse_after_scale else ds * np.float32(attention.scale)
            if pse.shape[2] == 1:
                part = part.sum(axis=1, keepdims=True)
            if pse.shape[1] == 1:
                part = part.sum(axis=0, keepdims=True)
            dpse[batch if pse.shape[0] > 1 else 0] += part
        ds *= np.float32(attention.scale)
        dqs.append(np.matmul(ds, wide_k))
        dks.append(summed_over_shared(np.matmul(ds.swapaxes(-1, -2), q), shared))
    grads = sequences.joined(dqs, query), sequences.joined(dks, key), sequences.joined(dvs, value)
    return *grads, None if dpse is None or pse is None else rounded(dpse, pse.dtype)
