"""The same random numbers on every device: what PyTorch's operators draw depends on seed, number, kind and shape alone.

The kernels that draw are replaced, for the CPU and for the accelerator, by ones that take their numbers from NumPy's
Philox under a key made of four things: the seed of the generator, the kind of draw, the shape, and how many draws of
that kind and shape the generator served since it was seeded. Device and dtype play no part, nor does the order among
draws of different kinds and shapes. Numbers are drawn in float64 and rounded to the dtype.

A generator's own state says where it is: after each draw it is given a new seed, a token under which this module keeps
the seed it began with and the counts. So `get_state`, `set_state`, `fork_rng` and checkpointing work as they did.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import random
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Draw = Callable[[str, tuple[int, ...], int, int], None]
Array = np.ndarray[Any, Any]
Numbers = np.random.Generator

FIRST_SEED = 2026  # for programs that set none
_RETAINED = 1 << 16  # states of generators that can be returned to
_EXACT = {torch.float16: 2**11, torch.bfloat16: 2**8, torch.float32: 2**24, torch.float64: 2**53}


@dataclass(frozen=True)
class _State:
    """The state of a generator: the seed it was given, and the draws it has served by kind and shape."""

    seed: int
    counts: dict[tuple[str, tuple[int, ...]], int]


_states: OrderedDict[int, _State] = OrderedDict()
_watch: Draw = lambda kind, shape, seed, number: None  # noqa: E731


def install(watch: Draw) -> None:
    """Replace the kernels; `watch` is called with kind, shape, seed and number of every draw."""
    global _watch
    random.seed(FIRST_SEED)
    np.random.seed(FIRST_SEED)
    torch.manual_seed(FIRST_SEED)
    _watch = watch
    keys = ["CPU"]
    if torch._C._get_privateuse1_backend_name() != "privateuseone":
        _load_emulated_kernels()
        keys.append("PrivateUse1")
    if torch.version.cuda or torch.version.hip or torch.cuda.is_available():
        keys.append("CUDA")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that kernels are replaced
        _replace(keys)


def _replace(keys: list[str]) -> None:
    for key in keys:
        library = torch.library.Library("aten", "IMPL")
        _libraries.append(library)
        # Before 2.13 a kernel of Python's, such as the emulated NPU's, is replaced only where that is asked for.
        options = {"allow_override": True} if "allow_override" in inspect.signature(library.impl).parameters else {}
        for name, kernel in _KERNELS.items():
            if key == "CPU" and name.startswith("native_dropout"):
                continue  # the CPU's dropout is composed of bernoulli_
            library.impl(name, kernel, key, **options)


_libraries: list[torch.library.Library] = []


def _load_emulated_kernels() -> None:
    """The emulated NPU registers its own kernels when they are first needed; these here come after."""
    import sys

    dispatch = sys.modules.get("gpu2npu.emulator.device.dispatch.dispatch")
    if dispatch is not None:
        dispatch.load_kernels()
        sys.modules["gpu2npu.emulator.npu_ops.refused"].compose_dropout()


def _numbers(kind: str, shape: Sequence[int], generator: Any, device: torch.device) -> Numbers:
    """The source of one draw."""
    generator = _generator(device) if generator is None else generator
    token = int(generator.initial_seed())
    state = _states.get(token) or _State(token, {})
    place = (kind, tuple(shape))
    number = state.counts.get(place, 0)
    _watch(kind, place[1], state.seed, number)
    moved = _State(state.seed, {**state.counts, place: number + 1})
    successor = _word(token, kind, place[1])
    _states[successor] = moved
    if len(_states) > _RETAINED:
        _states.popitem(last=False)
    generator.manual_seed(successor)
    return np.random.Generator(np.random.Philox(key=_word(state.seed, kind, place[1], number)))


def _word(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def _generator(device: torch.device) -> Any:
    if device.type == "cpu":
        return torch.default_generator
    module: Any = getattr(torch, device.type)
    return module.default_generators[device.index or 0]


def _given(values: Array, like: torch.Tensor) -> torch.Tensor:
    """Write the values into a tensor, on whatever device it is."""
    like.copy_(torch.from_numpy(np.asarray(values)).reshape(like.shape))
    return like


def _below(values: Array, high: float, dtype: torch.dtype) -> Array:
    """Rounding to the dtype must not reach the upper bound, which is excluded."""
    rounded = torch.from_numpy(np.asarray(values)).to(dtype).double().numpy()
    return np.where(rounded >= high, np.nextafter(high, -np.inf) - abs(high) * torch.finfo(dtype).eps, values)


def _uniform(self: torch.Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    drawn = _numbers("uniform", self.shape, generator, self.device).random(tuple(self.shape)) * (high - low) + low
    return _given(_below(drawn, high, self.dtype) if high > low else drawn, self)


def _normal(self: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    drawn = _numbers("normal", self.shape, generator, self.device).standard_normal(tuple(self.shape))
    return _given(drawn * std + mean, self)


def _normal_of(mean: Any, std: Any, *, generator: Any = None) -> torch.Tensor:
    given = mean if isinstance(mean, torch.Tensor) else std
    shape = torch.broadcast_shapes(*(each.shape for each in (mean, std) if isinstance(each, torch.Tensor)))
    return _normal(torch.empty(shape, dtype=given.dtype, device=given.device), generator=generator) * std + mean


def _integers(self: torch.Tensor, low: int, high: int, generator: Any) -> torch.Tensor:
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    numbers = _numbers("integers", self.shape, generator, self.device)
    return _given(numbers.integers(low, high, tuple(self.shape), dtype=np.int64), self)


def _random(self: torch.Tensor, *, generator: Any = None) -> torch.Tensor:
    if self.dtype is torch.bool:
        return _integers(self, 0, 2, generator)
    exact = _EXACT.get(self.dtype)
    return _integers(self, 0, exact + 1 if exact else min(torch.iinfo(self.dtype).max, 2**63 - 2) + 1, generator)


def _random_to(self: torch.Tensor, to: int, *, generator: Any = None) -> torch.Tensor:
    return _integers(self, 0, to, generator)


def _random_from(self: torch.Tensor, low: int, high: int | None, *, generator: Any = None) -> torch.Tensor:
    exact = _EXACT.get(self.dtype)
    return _integers(self, low, high if high is not None else (exact or torch.iinfo(self.dtype).max - 1) + 1, generator)


def _chances(shape: Sequence[int], generator: Any, device: torch.device) -> Array:
    return np.asarray(_numbers("chance", shape, generator, device).random(tuple(shape)))


def _bernoulli_p(self: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> torch.Tensor:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _given(_chances(self.shape, generator, self.device) < p, self)


def _bernoulli_tensor(self: torch.Tensor, p: torch.Tensor, *, generator: Any = None) -> torch.Tensor:
    chances = np.broadcast_to(p.detach().cpu().double().numpy(), tuple(self.shape))
    return _given(_chances(self.shape, generator, self.device) < chances, self)


def _bernoulli(self: torch.Tensor, *, generator: Any = None) -> torch.Tensor:
    return _bernoulli_tensor(torch.empty_like(self), self, generator=generator)


def _bernoulli_float(self: torch.Tensor, p: float, *, generator: Any = None) -> torch.Tensor:
    return _bernoulli_p(torch.empty_like(self), p, generator=generator)


def _dropout(tensor: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The same elements as `bernoulli_(1 - p)` keeps, of which dropout is composed elsewhere."""
    mask = torch.empty(tensor.shape, dtype=torch.bool, device=tensor.device)
    if train is False:
        return tensor.clone(), mask.fill_(True)
    _bernoulli_p(mask, 1 - p)
    return tensor * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def _exponential(self: torch.Tensor, lambd: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    drawn = _numbers("exponential", self.shape, generator, self.device).standard_exponential(tuple(self.shape))
    return _given(np.maximum(drawn, np.finfo(np.float32).tiny) / lambd, self)


def _geometric(self: torch.Tensor, p: float, *, generator: Any = None) -> torch.Tensor:
    return _given(_numbers("geometric", self.shape, generator, self.device).geometric(p, tuple(self.shape)), self)


def _cauchy(self: torch.Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    drawn = _numbers("cauchy", self.shape, generator, self.device).standard_cauchy(tuple(self.shape))
    return _given(drawn * sigma + median, self)


def _log_normal(self: torch.Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> torch.Tensor:
    drawn = _numbers("log_normal", self.shape, generator, self.device).standard_normal(tuple(self.shape))
    return _given(np.exp(drawn * std + mean), self)


def _poisson(self: torch.Tensor, generator: Any = None) -> torch.Tensor:
    rates = self.detach().cpu().double().numpy()
    return _given(_numbers("poisson", self.shape, generator, self.device).poisson(rates), torch.empty_like(self))


def _multinomial(
    self: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> torch.Tensor:
    """By the smallest exponentials over the weights, or, with replacement, by inverting their running sums."""
    weights = self.detach().cpu().double().numpy()
    rows = weights.reshape(-1, weights.shape[-1])
    if not np.all(np.isfinite(rows)) or np.any(rows < 0):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if np.any(rows.sum(axis=1) <= 0):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and num_samples > rows.shape[1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    numbers = _numbers("multinomial", (*self.shape[:-1], num_samples), generator, self.device)
    if replacement:
        limits = rows.cumsum(axis=1)
        drawn = numbers.random((len(rows), num_samples)) * limits[:, -1:]
        found = np.stack([np.searchsorted(limit, draw, "right") for limit, draw in zip(limits, drawn, strict=True)])
        found = np.minimum(found, rows.shape[1] - 1)
    else:
        with np.errstate(divide="ignore"):
            found = np.argsort(numbers.standard_exponential(rows.shape) / rows, axis=1)[:, :num_samples]
    result = torch.empty((*self.shape[:-1], num_samples), dtype=torch.int64, device=self.device)
    return _given(found.astype(np.int64), result)


def _permutation(
    n: int,
    *,
    generator: Any = None,
    dtype: torch.dtype | None = torch.int64,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got{n}")
    result = torch.empty(n, dtype=dtype or torch.int64, device=device)
    return _given(_numbers("permutation", (n,), generator, result.device).permutation(n), result)


def _permutation_out(n: int, *, generator: Any = None, out: torch.Tensor) -> torch.Tensor:
    if out.shape != (n,):
        out.resize_(n)
    return _given(_numbers("permutation", (n,), generator, out.device).permutation(n), out)


_KERNELS: dict[str, Callable[..., Any]] = {
    "uniform_": _uniform,
    "normal_": _normal,
    "normal.Tensor_float": _normal_of,
    "normal.float_Tensor": _normal_of,
    "normal.Tensor_Tensor": _normal_of,
    "random_": _random,
    "random_.to": _random_to,
    "random_.from": _random_from,
    "bernoulli": _bernoulli,
    "bernoulli.p": _bernoulli_float,
    "bernoulli_.float": _bernoulli_p,
    "bernoulli_.Tensor": _bernoulli_tensor,
    "native_dropout": _dropout,
    "exponential_": _exponential,
    "geometric_": _geometric,
    "cauchy_": _cauchy,
    "log_normal_": _log_normal,
    "poisson": _poisson,
    "multinomial": _multinomial,
    "randperm": functools.partial(_permutation),
    "randperm.generator": lambda n, generator, **other: _permutation(n, generator=generator, **other),
    "randperm.generator_out": lambda n, generator, out: _permutation_out(n, generator=generator, out=out),
}
