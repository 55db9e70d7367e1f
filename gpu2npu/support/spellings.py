"""The spellings of names of torch: aliases, variants that are operators, and names of other things."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import Struct

from gpu2npu.support.operators import Reached
from gpu2npu.support.releases import DATA

# The spaces of torch.ops that are PyTorch's and torch_npu's own; any library may add one.
_NAMESPACES = frozenset(
    {"aten", "prim", "prims", "torch", "npu", "c10d", "_c10d_functional", "quantized", "profiler", "higher_order"}
)
# Code for other devices: it does nothing where there is an NPU.
_OTHER_DEVICES = ("torch.xpu", "torch.mps", "torch.hpu", "torch.mlu", "torch.musa", "torch.mtia", "torch.neuron",
    "torch.cpu", "torch.backends.mps", "torch.backends.mkldnn", "torch.backends.mkl", "torch.backends.nnpack",
    "torch.backends.openmp", "torch.backends.xnnpack", "torch.backends.cpu", "torch.sdaa", "torch.supa", "torch.gcu",
    "torch.ops.hpu", "torch.ops.xpu", "torch.ops.torch_ipex", "torch.ops.torch_mlu", "torch.ops.sdaa",
    "torch.utils.hipify")  # fmt: skip
_OTHER_NAMES = frozenset({"npu", *(api.split(".")[1] for api in _OTHER_DEVICES if api.count(".") == 1)})
# Words in the names of other devices than a GPU of NVIDIA, a CPU and an NPU, and of what compiles for them; looked
# for in small letters, and with the letters first, which is five times as fast.
_OTHER_WORDS = sorted((_OTHER_NAMES - {"npu", "cpu"}) | {"amd", "hip", "ipex", "rocm", "tpu", "xla"})
OTHER_DEVICE = re.compile("|".join(map(r"{0}(?<![^\W_]{0})(?![^\W_])".format, _OTHER_WORDS)))
# What works on files, processes and programs: that no table has a name of these says nothing.
_OF_HOST = ("torch.multiprocessing", "torch.serialization", "torch.hub", "torch.utils.data", "torch.utils.hooks",
    "torch.fx", "torch.jit", "torch.package", "torch.testing", "torch.futures", "torch.return_types", "torch.random",
    "torch.FloatTensor", "torch.LongTensor", "torch.IntTensor", "torch.BoolTensor", "torch.HalfTensor",
    "torch.DoubleTensor", "torch.ByteTensor", "torch.ShortTensor", "torch.CharTensor", "torch.BFloat16Tensor",
    "torch.classes")  # fmt: skip


def is_in(api: str, spaces: tuple[str, ...]) -> bool:
    """Return whether a name is one of `spaces` or of what is in them."""
    return any(api == space or api.startswith(f"{space}.") for space in spaces)


def is_for_other_device(api: str) -> bool:
    """Return whether a name is for a device that is neither a GPU of NVIDIA nor an NPU: "torch.mps.synchronize"."""
    return is_in(api, _OTHER_DEVICES)


def is_of_other_device(name: str) -> bool:
    """Return whether a name of torch's is another device's than NVIDIA's: "torch.xpu.Event", "torch.Tensor.is_npu"."""
    parts = {part.removeprefix("is_") for part in name.split(".")[1:]}
    return name.startswith("torch.") and not parts.isdisjoint(_OTHER_NAMES)


def is_of_host(api: str) -> bool:
    """Return whether a name is for files, processes and programs: "torch.hub.load"."""
    return is_in(api, _OF_HOST)


def is_of_library(api: str) -> bool:
    """Return whether a name is an operator that another library than PyTorch or torch_npu has: torch.ops.xyz.run."""
    return api.startswith("torch.ops.") and api.count(".") > 2 and api.split(".")[2] not in _NAMESPACES


def public_spellings(api: str) -> Iterator[str]:
    """The names without one of their modules, the innermost first: torch.optim.Adam for torch.optim.adam.Adam, where a
    class is taken from the module which defines it."""
    parts = api.split(".")
    for index in range(len(parts) - 2, 0, -1):
        if parts[index].islower() and parts[-1][:1].isupper():
            yield ".".join((*parts[:index], *parts[index + 1 :]))


def spellings(api: str) -> list[str]:
    """The name itself, then where PyTorch exports the same thing: torch.nn.modules.conv.Conv2d is torch.nn.Conv2d."""
    parts = api.split(".")
    found = [api]
    homes = ("torch.nn.utils", "torch.nn", "torch.optim", "torch.distributions")
    found += [f"{home}.{parts[-1]}" for home in homes if api.startswith(f"{home}.")]
    if parts[:2] == ["torch", "functional"]:
        found.append(f"torch.{parts[-1]}")
    return list(dict.fromkeys(found))


def same_operators(api: str) -> list[str]:
    """Other names whose calls reach the operators of `api`: the function of a method (aten::relu has both), and what
    a deprecated name of an initializer calls (kaiming_normal is kaiming_normal_)."""
    owner, _, name = api.rpartition(".")
    if owner == "torch.Tensor":
        return [f"torch.{name}"]
    if owner in ("torch.nn.init", "torch.nn.utils") and not name.endswith("_"):
        return [f"{api}_"]
    return []


TORCH_APIS = DATA / "torch_apis.json"


class Variant(Struct, frozen=True):
    """One set of operators that calls reached, forward and in their gradients.

    `samples` reached it, `plain` of them called without options; `label` is what the others set ("mode='bicubic'").
    """

    samples: int
    plain: int
    label: str
    nodes: tuple[Reached, ...]
    gradient: tuple[Reached, ...]


@cache
def api_variants() -> dict[str, tuple[Variant, ...]]:
    """Return what calls of each traced API reach; see tools/api_map, which makes the data."""
    content: dict[str, Any] = json.loads(TORCH_APIS.read_text(encoding="utf-8"))
    nodes: list[Reached] = []
    for operator, *parts in content["nodes"]:
        nodes.append(Reached(content["operators"][operator], tuple(nodes[part] for part in parts)))
    return {
        api: tuple(
            Variant(
                samples, plain, label, tuple(nodes[each] for each in reached), tuple(nodes[each] for each in gradient)
            )
            for samples, plain, label, reached, gradient in variants
        )
        for api, variants in content["apis"].items()
    }


def is_torch_api(api: str) -> bool:
    """Return whether `api` ("torch.Tensor.scatter_add_") is spelled as a public name of torch or torch_npu."""
    root, *names = api.split(".")
    return root in ("torch", "torch_npu") and bool(names) and not any(name.startswith("_") for name in names)
