"""Generators on `cuda`, which a CPU build cannot make: CPU generators that say so, one for each GPU by default."""

from __future__ import annotations

from typing import Any

import torch

from gpu2npu.verify.reference import visible_gpus

_CpuGenerator: Any = torch._C.Generator


class _GeneratorType(type(_CpuGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _CpuGenerator)


class Generator(_CpuGenerator, metaclass=_GeneratorType):  # type: ignore[misc]
    """`torch.Generator`, which also knows `cuda`."""

    def __new__(cls, device: Any = "cpu") -> Any:
        wanted = torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cpu")
        if wanted.type != "cuda":
            return super().__new__(cls, wanted)
        self = super().__new__(_CudaGenerator, "cpu")
        self._index = visible_gpus.index_of(wanted)
        return self


class _CudaGenerator(Generator):
    _index: int

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self._index)


_defaults: list[_CudaGenerator] = []


def default_generators() -> tuple[_CudaGenerator, ...]:
    """One a GPU, seeded as the CPU's was when they are first asked for."""
    for index in range(len(_defaults), visible_gpus.device_count()):
        generator = Generator(torch.device("cuda", index))
        generator.manual_seed(torch.initial_seed())
        _defaults.append(generator)
    return tuple(_defaults)


def default_generator(index: int) -> _CudaGenerator:
    """Return the generator that operators on cuda:`index` draw from unless they are given another."""
    return default_generators()[index]


def manual_seed(seed: int) -> None:
    """Seed the current GPU."""
    default_generator(visible_gpus.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every GPU."""
    for generator in default_generators():
        generator.manual_seed(int(seed))


def initial_seed() -> int:
    """The seed of the current GPU."""
    return int(default_generator(visible_gpus.current_device()).initial_seed())


def get_rng_state(device: Any = "cuda") -> torch.Tensor:
    """The random state of a GPU, a ByteTensor on the CPU."""
    return default_generator(visible_gpus.index_of(device)).get_state()  # type: ignore[no-any-return]


def get_rng_state_all() -> list[torch.Tensor]:
    """The random state of every GPU."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
    """Restore what `get_rng_state` gave."""
    default_generator(visible_gpus.index_of(device)).set_state(new_state.cpu())


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Restore what `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
