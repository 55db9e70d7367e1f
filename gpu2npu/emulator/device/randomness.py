"""Random state: one `torch.Generator` per NPU, which keys a NumPy generator for every operator that draws.

The state is a seed and an offset, 8 bytes each, as torch_npu's is (`NPUGeneratorImpl.cpp`, 2.1 to 2.13) and CUDA's;
DTensor reads and writes it so. Every operator takes the two as the key of its own Philox stream and moves the offset
on: equal states draw equal numbers, bit for bit.

PyTorch cannot make generators of a Python backend, so an npu generator is a CPU generator that says `device='npu:i'`.
Its C++ state, seeded anew each time, serves the operators that borrow torch's CPU code.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random.bit_generator import ISeedSequence

from gpu2npu.emulator.device import visible_npus

_CpuGenerator: Any = torch._C.Generator
_WORD = 1 << 64
_STEP = 12  # op-plugin's operators ask for 10 numbers, whatever their size; torch_npu makes that a multiple of 4
_DEFAULT_SEED = 67280421310721  # c10's, of a generator that nobody has seeded

# Operators are handed a new Python object over the same C++ state; its address leads back to ours.
_by_state: weakref.WeakValueDictionary[int, NpuGenerator] = weakref.WeakValueDictionary()
_lock = threading.Lock()
on_state_set: Callable[[NpuGenerator, int, int], None] | None = None  # told of each seed and offset that is set


class _GeneratorType(type(_CpuGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _CpuGenerator)


class Generator(_CpuGenerator, metaclass=_GeneratorType):  # type: ignore[misc]
    """`torch.Generator`, which also knows the npu device."""

    def __new__(cls, device: torch.device | str | int | None = "cpu") -> Any:
        wanted = torch.device("npu", device) if isinstance(device, int) else torch.device(device or "cpu")
        if wanted.type != "npu":
            return super().__new__(cls, wanted)
        self = super().__new__(NpuGenerator, "cpu")
        self._begin(visible_npus.index_of(wanted))
        return self


class NpuGenerator(Generator):
    """The generator that `Generator("npu")` makes."""

    _index: int
    _state: list[int]  # the seed and the offset, unsigned; of several generators after graphsafe_set_state

    def _begin(self, index: int) -> None:
        self._index, self._state = index, [_DEFAULT_SEED, 0]
        _by_state[self._cdata] = self

    @property
    def device(self) -> torch.device:
        return torch.device("npu", self._index)

    def __repr__(self) -> str:
        return f"<torch._C.Generator on {self.device}>"

    def __reduce__(self) -> Any:
        return _restore, (str(self.device), self.get_state())

    def advance(self) -> tuple[int, int]:
        """The seed and the offset of the operator that draws next; the offset moves on."""
        with _lock:
            seed, offset = self._state
            self._state[1] = (offset + _STEP) % _WORD
        return seed, offset

    def manual_seed(self, seed: int) -> NpuGenerator:
        super().manual_seed(seed)  # raises torch's error about one that is too large
        if on_state_set is not None:
            on_state_set(self, int(seed) % _WORD, 0)
        self._state[:] = int(seed) % _WORD, 0
        return self

    def seed(self) -> int:
        seed = super().seed() % _WORD
        self._state[:] = seed, 0
        return seed

    def initial_seed(self) -> int:
        return self._state[0]

    def get_offset(self) -> int:
        return self._state[1]

    def set_offset(self, offset: int) -> NpuGenerator:
        """Raises RuntimeError: not a multiple of 4."""
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        self._state[1] = offset % _WORD
        return self

    def get_state(self) -> torch.Tensor:
        """uint8 of shape (16,) on the CPU: the seed and the offset, in the machine's order of bytes."""
        return torch.tensor(self._state, dtype=torch.uint64, device="cpu").view(torch.uint8)

    def set_state(self, new_state: torch.Tensor) -> NpuGenerator:
        """Restore what `get_state` gave; 8 bytes are a seed alone.

        Raises:
            TypeError: Not a ByteTensor on the CPU.
            RuntimeError: Its size is wrong, or the offset is not a multiple of 4.
        """
        if not isinstance(new_state, torch.Tensor) or new_state.dtype is not torch.uint8 or not new_state.is_cpu:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.numel() not in (8, 16):
            raise RuntimeError("RNG state is wrong size")
        seed, *offset = np.frombuffer(bytes(new_state.tolist()), np.uint64).tolist()
        if on_state_set is not None:
            on_state_set(self, seed, sum(offset))
        self.set_offset(sum(offset))
        self._state[0] = seed
        return self

    def clone_state(self) -> NpuGenerator:
        clone: NpuGenerator = Generator(self.device)
        return clone.set_state(self.get_state())

    def graphsafe_get_state(self) -> NpuGenerator:
        """A generator of the same state, now and later."""
        shared: NpuGenerator = Generator(self.device)
        return shared.graphsafe_set_state(self)

    def graphsafe_set_state(self, new_state: NpuGenerator) -> NpuGenerator:
        self._state = new_state._state
        return self


def _restore(device: str, state: torch.Tensor) -> NpuGenerator:
    generator: NpuGenerator = Generator(device)
    return generator.set_state(state)


_defaults: list[NpuGenerator] = []


def default_generator(index: int) -> NpuGenerator:
    """The generator that npu:`index` draws from unless an operator is given another."""
    if index >= len(_defaults):
        seed = torch.initial_seed()
        for number in range(len(_defaults), index + 1):
            generator = Generator(torch.device("npu", number))
            generator.manual_seed(seed)
            _defaults.append(generator)
    return _defaults[index]


class DefaultGenerators(Sequence[NpuGenerator]):
    """`torch.npu.default_generators`: one a device, made when asked for."""

    def __len__(self) -> int:
        return visible_npus.device_count()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError("tuple index out of range")
        return default_generator(index % len(self))


def torch_generator(given: torch.Generator | None, index: int) -> torch.Generator:
    """A CPU generator for torch's own code, seeded from the state of what an operator on npu:`index` draws from."""
    own = _own(given, index)
    seed = int(_philox(own).random_raw())
    _CpuGenerator.manual_seed(own, seed)
    return own


def numpy_generator(given: torch.Generator | None, index: int) -> np.random.Generator:
    """A NumPy generator, keyed by the state of what an operator on npu:`index` draws from."""
    return np.random.Generator(_philox(_own(given, index)))


def _own(given: torch.Generator | None, index: int) -> NpuGenerator:
    if given is None:
        return default_generator(index)
    own = _by_state.get(given._cdata)  # type: ignore[attr-defined]
    if own is None:
        raise RuntimeError(f"Expected a 'npu' device type for generator but found '{given.device.type}'")
    return own


class _Key(ISeedSequence):  # type: ignore[misc]
    """Hands Philox its key. Given as `key`, NumPy asks the system for random bytes first, which takes longer."""

    def __init__(self, words: tuple[int, int]) -> None:
        self._words = np.array(words, np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> np.ndarray[Any, Any]:
        return self._words


def _philox(own: NpuGenerator) -> np.random.Philox:
    return np.random.Philox(_Key(own.advance()))  # type: ignore[arg-type]


def manual_seed(seed: int) -> None:
    """Seed the current NPU."""
    default_generator(visible_npus.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every NPU; `torch.manual_seed` does it too."""
    for index in range(visible_npus.device_count()):
        default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current NPU with a random number."""
    default_generator(visible_npus.current_device()).seed()


def seed_all() -> None:
    """Seed every NPU with the same random number."""
    manual_seed_all(_CpuGenerator().seed())


def initial_seed() -> int:
    """The seed of the current NPU."""
    return int(default_generator(visible_npus.current_device()).initial_seed())


def get_rng_state(device: visible_npus.DeviceLike = "npu") -> torch.Tensor:
    """The random state of the device, a ByteTensor on the CPU."""
    return default_generator(visible_npus.index_of(device)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The random state of every device."""
    return [get_rng_state(index) for index in range(visible_npus.device_count())]


def set_rng_state(new_state: torch.Tensor, device: visible_npus.DeviceLike = "npu") -> None:
    """Restore what `get_rng_state` gave."""
    default_generator(visible_npus.index_of(device)).set_state(new_state.cpu())


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Restore what `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
