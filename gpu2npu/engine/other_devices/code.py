"""The code of a file that is for other devices than an NPU, found in one pass over its nodes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpu2npu.engine.other_devices.cuda import CudaBranches, cuda_branches
from gpu2npu.engine.other_devices.device_pairs import (
    branches_for_others,
    classes_for_gpus,
    halves_for_cuda,
    of_other_devices,
    registers_twice,
)
from gpu2npu.engine.other_devices.npu import mentions_npu, other_branches
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.offsets import holds
from gpu2npu.records import Bounds

# Each question for CUDA has one of these.
_QUESTION_WORDS = ("is_available", "CUDA_HOME", "is_cuda", "version.cuda", "'cuda'", '"cuda"')


class OtherDeviceCode(Struct, frozen=True):
    """`branches` never run on an NPU, since what is beside them is for it; `cuda` is what only CUDA's own code
    is under, `others` that of other devices."""

    branches: tuple[Bounds, ...]
    cuda: CudaBranches
    others: tuple[Bounds, ...]

    def has(self, place: Bounds) -> bool:
        """Return whether a place is in code that stays as it is."""
        return self.has_finding(place) or holds_any(self.cuda.bodies, place)

    def has_finding(self, place: Bounds) -> bool:
        """Return whether nothing is reported of a place: what only CUDA's own code imports and calls is."""
        return holds_any((*self.branches, *self.others, *self.cuda.conditions), place)


def holds_any(places: Iterable[Bounds], place: Bounds) -> bool:
    """Return whether one of some places holds another; what is inserted at the end of one is behind it."""
    return any(holds(outer, place) and place[0] < outer[1] for outer in places)


def other_device_code(names: Names, table: RuleTable) -> OtherDeviceCode:
    """Find such code."""
    file = names.file
    has_question = any(word in file.text for word in _QUESTION_WORDS)
    cuda = cuda_branches(names, table, file.unordered()) if has_question else CudaBranches()
    return OtherDeviceCode(tuple(other_device_branches(names)), cuda, tuple(branches_for_others(names)))


def other_device_branches(names: Names) -> list[Bounds]:
    """The code of a file that runs on no NPU, since what is beside it is for it."""
    found, text = [*classes_for_gpus(names), *of_other_devices(names)], names.file.text
    if mentions_npu(text) or registers_twice(text):
        kinds = names.file.unordered()
        found += [*other_branches(names, kinds), *halves_for_cuda(names, kinds)]
    return found
