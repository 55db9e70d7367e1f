"""Tests that limits are in the table of behaviour: no code of the emulated NPU states one beside it.

An error of torch_npu's operators is either a gap of the emulator (NotImplementedError, which a user sees as "the
emulated NPU does not compute ...") or one of `FITS`. An error elsewhere that speaks of the NPU is one of `OTHERWISE`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gpu2npu.emulator

ROOT = Path(gpu2npu.emulator.__file__).parent
# The words of who could have a limit; "the emulated NPU" speaks of a gap.
_SPEAKS = re.compile(r"\b(?:NPUs?|CANN|HCCL|torch_npu|Ascend\w*|aclnn\w*|op-plugin|[Cc]hips?)\b")
# Modules and functions whose errors are of the arguments alone: no implementation could compute them.
FITS = {
    "npu_ops/attention_arithmetic.py hidden": "a mask with fewer rows or columns than the scores that it hides",
    "npu_ops/composed/communication.py _group": "the name of a group that this process does not have",
    "npu_ops/composed/experts.py npu_moe_token_unpermute_with_routing_map": "probabilities without their places",
    "npu_ops/dropout.py unpacked": "a mask with fewer bits than there are elements",
    "npu_ops/gradient.py refuse": "PyTorch's own error for an operator that torch_npu gives no derivative",
    "npu_ops/inference/attention.py _mask_of": "a mask with fewer rows or columns than the scores that it hides",
    "npu_ops/inference/caches.py _store": "tokens of another width than the cache",
    "npu_ops/memory.py copy_memory": "another number of elements, or another NPU, whose memory it does not reach",
    "npu_ops/memory.py npu_change_data_ptr": "memory beyond the end of the other tensor",
    "npu_ops/quantization/numbers.py packed": "numbers that do not fill an element of the result",
    "npu_ops/recurrent/lstm.py _present": "a mask of other steps or sequences",
    "npu_ops/rotary.py _rotary_mul_gradient": "torch_npu has no derivative for it, as its derivatives.yaml says",
}
# Errors that speak of the NPU and are no limit of a call, or depend on what the table does not know.
OTHERWISE = {
    "apex_site/apex/amp.py _check": "apex's own check of where a model is",
    "device/compiling.py _require": "which backends a release has: facts of its wheel",
    "device/dispatch/arguments.py _common_index": "tensors of two devices",
    "device/dispatch/dispatch.py _nested_fallback": "nested tensors, for which a release registers no operator",
    "device/environment.py _check_allocator": "torch_npu's parser of a variable: rules/npu_environment.json says it",
    "device/frontend.py call": "PyTorch without CUDA has no such function",
    "device/lifecycle.py init": "a process without NPUs, or forked after their use",
    "device/memory/storage_ops.py empty": "a layout: what a tensor is, not what a call does",
    "device/memory/storages.py _restore": "a file of another machine",
    "device/dispatch/without_kernel.py placed": "a layout or a dtype of what came back from the CPU",
    "device/sparse/dispatch.py _refuse": "an operator that the release does not register: facts of its wheel",
    "device/sparse/dispatch.py _refuse_compressed": "an operator for CSR that no release registers",
    "device/sparse/dispatch.py run": "a conversion that the release does not register: facts of its wheel",
    "device/sparse/operators.py _add_to_dense": "strides of the result, which the table does not know",
    "distributed/context_parallel.py _arguments": "depends on an open context, in the words of torch_npu's Python code",
    "distributed/datatypes.py _check_kind_reduced": "the words of a row of the table",
    "distributed/group.py _with_itself": "depends on the rank that runs",
    "distributed/operands.py copy_in_order": "messages that do not match",
    "site/torch_npu/__init__.py __getattr__": "Python's own error",
    "site/torch_npu/npu/graph_capture.py __torch_dispatch__": "depends on an open capture",
    "site/torch_npu/testing/common_distributed.py run": "a test that needs more NPUs",
}


def raised() -> Iterator[tuple[str, str, str]]:
    """The place (module and function), the class and the words of each error that the emulator raises."""

    def walk(node: ast.AST, module: str, function: str) -> Iterator[tuple[str, str, str]]:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.Raise) and each.exc is not None:
                constants = (part.value for part in ast.walk(each) if isinstance(part, ast.Constant))
                kind = each.exc.func if isinstance(each.exc, ast.Call) else each.exc
                words = " ".join(part for part in constants if isinstance(part, str))
                yield f"{module} {function}", ast.unparse(kind), words
            inner = each.name if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            yield from walk(each, module, inner)

    for path in sorted(ROOT.rglob("*.py")):
        yield from walk(ast.parse(path.read_text("utf-8")), path.relative_to(ROOT).as_posix(), "")


def of_operators() -> set[str]:
    """The places where torch_npu's operators raise another error than a gap's, or one that says more than the gap."""
    return {
        place
        for place, kind, words in raised()
        if place.startswith("npu_ops/") and (kind != "NotImplementedError" or speaks(words))
    }


def speaks(words: str) -> bool:
    """Return whether words are about an NPU, and not about what the emulator lacks."""
    return bool(_SPEAKS.search(words)) and "emulate" not in words and "emulator" not in words


def test_operators_state_no_limit_beside_the_table() -> None:
    assert of_operators() == set(FITS), "a limit of torch_npu is a row of gpu2npu/support/data/behaviour"


def test_nothing_else_states_a_limit_beside_the_table() -> None:
    found = {place for place, _, words in raised() if speaks(words) and not place.startswith("npu_ops/")}
    assert found == set(OTHERWISE), "a limit of torch_npu is a row of gpu2npu/support/data/behaviour"
