"""Random state: one `torch.Generator` per NPU, whose stream keys a NumPy generator for every operator that draws.

PyTorch cannot make generators of a Python backend, so an npu generator is a CPU generator that says `device='npu:i'`:
its C++ state is the one state there is. Seeding, saving and restoring that state are therefore PyTorch's own code, and
equal states draw equal numbers, bit for bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device import ordinal

_CpuGenerator: Any = torch._C.Generator
_DRAW_LIMIT = 1 << 53


# Operators are handed a new Python object over the same C++ state; its address leads back to ours.
_by_state: weakref.WeakValueDictionary[int, Generator] = weakref.WeakValueDictionary()


class _GeneratorType(type(_CpuGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _CpuGenerator)


class Generator(_CpuGenerator, metaclass=_GeneratorType):  # type: ignore[misc]
    """`torch.Generator`, which also knows the npu device."""

    _npu: int | None

    def __new__(cls, device: torch.device | str | int | None = "cpu") -> Generator:
        if isinstance(device, int):
            device = torch.device("npu", device)
        wanted = torch.device("cpu" if device is None else device)
        if wanted.type != "npu":
            self = super().__new__(cls, wanted)
            self._npu = None
            return self
        self = super().__new__(cls, "cpu")
        self._npu = ordinal.index_of(wanted)
        _by_state[self._cdata] = self
        return self

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return super().device if self._npu is None else torch.device("npu", self._npu)

    def __repr__(self) -> str:
        return f"<torch._C.Generator on {self.device}>"

    def __reduce__(self) -> Any:
        return _restore, (str(self.device), self.get_state())

    def clone_state(self) -> Generator:
        clone = Generator(self.device)
        clone.set_state(self.get_state())
        return clone


def _restore(device: str, state: torch.Tensor) -> Generator:
    generator = Generator(device)
    generator.set_state(state)
    return generator


_defaults: list[Generator] = []


def default_generator(index: int) -> Generator:
    """The generator that npu:`index` draws from unless an operator is given another."""
    if index >= len(_defaults):
        seed = torch.initial_seed()
        for number in range(len(_defaults), index + 1):
            generator = Generator(torch.device("npu", number))
            generator.manual_seed(seed)
            _defaults.append(generator)
    return _defaults[index]


class DefaultGenerators(Sequence[Generator]):
    """`torch.npu.default_generators`: one a device, made when asked for."""

    def __len__(self) -> int:
        return ordinal.device_count()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError("tuple index out of range")
        return default_generator(index % len(self))


def torch_generator(given: torch.Generator | None, index: int) -> torch.Generator:
    """The generator that an operator on npu:`index` draws from."""
    if given is None:
        return default_generator(index)
    own = _by_state.get(given._cdata)  # type: ignore[attr-defined]
    if own is None:
        raise RuntimeError(f"Expected a 'npu' device type for generator but found '{given.device.type}'")
    return own


def numpy_generator(given: torch.Generator | None, index: int) -> np.random.Generator:
    """A NumPy generator keyed by the next numbers of the torch generator's stream."""
    source = torch_generator(given, index)
    high, low = torch.empty(2, dtype=torch.int64).random_(_DRAW_LIMIT, generator=source).tolist()
    return np.random.Generator(np.random.Philox(key=high << 64 | low))


def manual_seed(seed: int) -> None:
    """Seed the current NPU."""
    default_generator(ordinal.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every NPU; `torch.manual_seed` does it too."""
    for index in range(ordinal.device_count()):
        default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current NPU with a random number."""
    default_generator(ordinal.current_device()).seed()


def seed_all() -> None:
    """Seed every NPU with the same random number."""
    manual_seed_all(_CpuGenerator().seed())


def initial_seed() -> int:
    """The seed of the current NPU."""
    return int(default_generator(ordinal.current_device()).initial_seed())


def get_rng_state(device: ordinal.DeviceLike = "npu") -> torch.Tensor:
    """The random state of the device, a ByteTensor on the CPU."""
    return default_generator(ordinal.index_of(device)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The random state of every device."""
    return [get_rng_state(index) for index in range(ordinal.device_count())]


def set_rng_state(new_state: torch.Tensor, device: ordinal.DeviceLike = "npu") -> None:
    """Restore what `get_rng_state` gave."""
    default_generator(ordinal.index_of(device)).set_state(new_state.cpu())


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Restore what `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
