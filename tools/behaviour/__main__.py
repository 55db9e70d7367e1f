"""Writes `gpu2npu/support/data/behaviour/dtypes.json`: the dtypes that PyTorch's operators take and the NPU's do not.

    python -m tools.behaviour OP_PLUGIN OPS_MATH OPS_NN

OP_PLUGIN is a checkout of Ascend/op-plugin, OPS_MATH and OPS_NN are of cann/ops-math and cann/ops-nn. An operator
gets a row where op-plugin hands its tensor to CANN as it is, CANN's document and source leave out a dtype, torch_npu's
document has not verified it, and PyTorch's CPU code computes a call of that dtype. That call is the example of the row.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpu2npu.support.behaviour import TABLE
from gpu2npu.support.facts import documented
from tools.behaviour.cann import FAMILIES, functions, parameters

FILE = TABLE / "dtypes.json"
# In the order in which messages name them.
_DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool"),
    *("complex64", "complex128", "uint16", "uint32", "uint64", "complex32"),
)
_DT = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE"}
_SHAPES = ("4, 4", "4", "1, 2, 8, 8", "1, 2, 4", "1, 1, 4, 4, 4")
_OWNERS = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft")
_ARGUMENTS: tuple[str, ...] = (
    "x",
    "x, x",
    "x, 0",
    "x, 2",
    "x, 0, i",
    "x, x, x",
    "x, 0, i, x",
    "x, (1, 1)",
    "x, (1, 1, 1)",
    "x, (0, 1)",
)
_ARGUMENTS += ("x, 0.5", "x, i", "x, x > 0", "x, x > 0, 1", "[x, x]", "x, 1, 0", "x, (4, 4)", "x > 0, x, x", "x, 0, 1")
# What the names of functions are, where an operator is called otherwise.
_CALLED = {"_prelu_kernel": "prelu", "max_pool2d_with_indices": "max_pool2d", "max_pool3d_with_indices": "max_pool3d"}
# The emulator reaches these by other operators, or a row by hand says more.
_LEFT = frozenset({"celu", "logit", "binary_cross_entropy_with_logits", "index", "masked_fill", "_add_relu", "equal"})
# Cube operators have rows of their own.
_ELSEWHERE = frozenset(
    {"mm", "bmm", "addmm", "addbmm", "baddbmm", "addmv", "mv", "dot", "vdot", "convolution", "linear"}
)
_SOURCE = "https://gitcode.com/cann: document and source of {}; op-plugin's op_plugin_functions.yaml and ops/opapi"


@dataclass(frozen=True)
class Call:
    """A call that reaches an operator: an API, its arguments as they are written, and the shape of `x`."""

    api: str
    arguments: str
    shape: str

    def program(self, dtype: str, device: str) -> str:
        """The call as a program for a tensor `x` of a dtype, on a device."""
        made = f"x = torch.ones({self.shape}, dtype=torch.{dtype}, device='{device}')\n"
        if ", i" in f", {self.arguments}".replace("(", ""):
            made += f"i = torch.zeros({self.shape}, dtype=torch.int64, device='{device}')\n"
        if self.api.startswith("torch.Tensor."):
            _, _, rest = self.arguments.partition(", ")
            return f"{made}x.{self.api.removeprefix('torch.Tensor.')}({rest})"
        return f"{made}{self.api}({self.arguments})"


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether an operator was dispatched with the tensor `x` as one argument."""

    def __init__(self, operator: str, argument: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operator, self.argument, self.dtypes = f"aten::{operator}", argument, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.removesuffix("_") == self.operator.removesuffix("_"):
            for each, value in zip(func._schema.arguments, args, strict=False):
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if each.name == self.argument and isinstance(tensor, torch.Tensor):
                        self.dtypes.add(str(tensor.dtype).removeprefix("torch."))
        return func(*args, **(kwargs or {}))


def reaches(call: Call, operator: str, argument: str, dtype: str) -> bool:
    """Return whether PyTorch's CPU code computes a call of a dtype, and hands that dtype to the operator."""
    seen = _Seen(operator, argument)
    try:
        with warnings.catch_warnings(), seen:
            warnings.simplefilter("ignore")
            exec(call.program(dtype, "cpu"), {"torch": torch})
    except Exception:
        return False
    return dtype in seen.dtypes


def calls(operator: str, argument: str) -> list[Call]:
    """One call of each API that hands `x` to an operator as an argument, the function before the method."""
    bare = _CALLED.get(operator, operator.lstrip("_"))
    owners = [f"{owner}.{name}" for owner in _OWNERS for name in dict.fromkeys((bare, _short(bare)))]
    owners += [f"torch.Tensor.{name}" for name in (bare, f"{bare}_") if hasattr(torch.Tensor, name)]
    found = []
    for api in owners:
        if api.startswith("torch.Tensor.") or _exists(api):
            tried = (Call(api, arguments, shape) for shape in _SHAPES for arguments in _ARGUMENTS)
            call = next((each for each in tried if reaches(each, operator, argument, "float32")), None)
            found += [call] if call is not None else []
    return found


def _short(name: str) -> str:
    prefix, _, rest = name.partition("_")
    return rest if prefix in ("special", "linalg", "fft") else name


def _exists(api: str) -> bool:
    value: Any = torch
    for part in api.split(".")[1:]:
        value = getattr(value, part, None)
    return callable(value)


def rows(checkouts: list[Path]) -> list[dict[str, Any]]:
    """The rows of all operators, by name."""
    known = parameters(checkouts[1:])
    found: dict[str, dict[str, Any]] = {}
    for operator, function, given, integral in functions(checkouts[0]):
        inputs = known.get(function, ())
        for argument, parameter in zip(given, inputs, strict=False):
            if (
                not parameter.dtypes
                or operator in _ELSEWHERE | _LEFT
                or operator.endswith("_")
                or f"{operator}-{argument}" in found
            ):
                continue
            if _is_backward(operator) or not (tried := calls(operator, argument)):
                continue
            verified = {dtype for call in tried for dtype in getattr(documented(call.api), "dtypes", ())}
            left_out = {dtype for each in parameter.dtypes.values() for dtype in verified - each}
            refused = {
                family: [
                    dtype
                    for dtype in _DTYPES
                    if dtype not in parameter.dtypes[family] | verified
                    and not (argument in integral and (dtype == "bool" or "int" in dtype))
                    and any(reaches(call, operator, argument, dtype) for call in tried)
                ]
                for family in FAMILIES.values()
            }
            if any(refused.values()):
                found.update(_rows_of(operator, argument, function, refused, parameter.dtypes, tried, left_out))
    return _merged([found[name] for name in sorted(found)])


def _merged(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for the tensors of an operator that refuse the same dtypes: a call has mostly one dtype."""
    made: list[dict[str, Any]] = []
    for each in some:
        same = next((one for one in made if _alike(one, each)), None)
        if same is None:
            made.append(each)
        else:
            _, _, rest = each["when"].partition(".")
            same["when"] = f"tensors.{rest}"
            same["words"] = re.sub(
                r"Tensor \w+ not implemented for {\w+}", "Tensor not implemented for {tensors}", same["words"]
            )
    return made


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    dtypes = [each["when"].partition(".")[2] for each in (one, other)]
    return dtypes[0] == dtypes[1] and all(one.get(key) == other.get(key) for key in ("operators", "chips"))


def _is_backward(operator: str) -> bool:
    return "backward" in operator or operator.endswith("_grad")


def _rows_of(
    operator: str,
    argument: str,
    function: str,
    refused: dict[str, list[str]],
    taken: dict[str, frozenset[str]],
    tried: list[Call],
    left_out: set[str],
) -> dict[str, dict[str, Any]]:
    """One row for the families of chips that refuse the same."""
    by_dtypes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for family, dtypes in refused.items():
        by_dtypes[tuple(dtypes)].append(family)
    made: dict[str, dict[str, Any]] = {}
    for some, families in by_dtypes.items():
        first = next((call for call in tried for each in some[:1] if reaches(call, operator, argument, each)), None)
        if not some or first is None:
            continue
        name = f"{operator}-{argument}" + ("" if not made else f"-{families[0]}")
        allowed = [each for each in _DTYPES if each in taken[families[0]]]
        listed = ",".join(_DT.get(each, f"DT_{each.upper()}") for each in allowed)
        made[name] = {
            "id": name,
            "apis": sorted({call.api for call in tried}),
            "operators": [f"aten::{operator}"],
            "when": f"{argument}.dtype == {some[0]}" if len(some) == 1 else f"{argument}.dtype in ({', '.join(some)})",
            **({} if len(families) == len(refused) else {"chips": families}),
            "words": f"call {function} failed, detail:EZ1001: Tensor {argument} not implemented for {{{argument}}}, "
            f"should be in dtype support list [{listed},].",
            "evidence": f"{function} takes {', '.join(allowed)}",
            **(
                {"disagrees": f"torch_npu verified {', '.join(sorted(left_out))}, which {function} leaves out"}
                if left_out
                else {}
            ),
            "source": _SOURCE.format(function),
            "fails": first.program(some[0], "npu"),
            "passes": first.program("float32" if "float32" in allowed else allowed[0], "npu"),
        }
    return made


def _named(api: str, found: dict[str, Any]) -> str:
    """The names of an API's parameters, where they are in the order of the operator's."""
    operator = found["operators"][0].removeprefix("aten::")
    schema = getattr(getattr(torch.ops.aten, operator), getattr(torch.ops.aten, operator).overloads()[0])._schema
    names = [each.name for each in schema.arguments if not each.kwarg_only]
    last = api.rpartition(".")[2].removesuffix("_")
    return " ".join(names if last == operator and not api.startswith("torch.nn.") else names[:1])


def main() -> None:
    """Write the rows."""
    found = rows([Path(each) for each in sys.argv[1:]])
    content = {
        "all": {"outcome": "raises", "advice": "convert it to a dtype that is taken, or compute this on the CPU"},
        "parameters": {api: named for each in found for api in each["apis"] if (named := _named(api, each))},
        "rows": found,
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    print(f"{len(found)} rows")


if __name__ == "__main__":
    main()
