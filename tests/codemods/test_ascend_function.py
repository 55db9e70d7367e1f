"""Each equivalent of `-sim` against torch on the CPU, made of operators that every release it is for has."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import gpu2npu.codemods
from gpu2npu.codemods.similar import EQUIVALENTS
from gpu2npu.support.release_tables import table_for
from gpu2npu.support.verdicts import VerdictKind, verdict

TEMPLATE = Path(gpu2npu.codemods.__file__).parent / "templates" / "ascend_function" / "__init__.py"
SPEC = importlib.util.spec_from_file_location("ascend_function", TEMPLATE)
ascend_function = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ascend_function)

X = torch.tensor([[-1.5, 0.0, 2.0], [float("nan"), 0.25, -0.5]])
Y = torch.tensor([[0.5, -2.0, float("nan")], [1.0, 0.25, 3.0]])
UNIT = torch.tensor([0.1, 0.5, 0.9])
EDGES = torch.tensor([-1.0, 0.0, 2.0])
CALLS = {
    "torch.angle": [(X,), (torch.tensor([1 + 2j, -3j]),)],
    "torch.bucketize": [(UNIT, EDGES), (EDGES, EDGES, {"right": True}), (0.5, EDGES, {"out_int32": True})],
    "torch.copysign": [(X, Y[1]), (X, -2.0)],
    "torch.special.entr": [(X,), (UNIT,)],
    "torch.fmax": [(X, Y), (X, Y[1])],
    "torch.fmin": [(X, Y), (X, Y[1])],
    "torch.heaviside": [(X, torch.tensor(0.5)), (X, Y)],
    "torch.hypot": [(X, Y), (torch.zeros(2), torch.zeros(2)), (UNIT * 3e38, UNIT * 3e38)],
    "torch.nn.functional.huber_loss": [
        (UNIT, EDGES),
        (UNIT, EDGES, {"reduction": "sum", "delta": 0.3}),
        (UNIT, EDGES, {"reduction": "none"}),
    ],
    "torch.isin": [(EDGES, UNIT), (torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 4]), {"invert": True})],
    "torch.logcumsumexp": [(UNIT, 0), (torch.arange(6.0).view(2, 3) * 5, 1)],
    "torch.logit": [(UNIT,), (X, 1e-3)],
    "torch.special.logit": [(UNIT, {"eps": 0.2})],
    "torch.nn.functional.rms_norm": [(EDGES, (3,)), (X.nan_to_num(), [3], UNIT, 1e-5)],
    "torch.unravel_index": [(torch.tensor([0, 5, 11]), (3, 4)), (torch.tensor(7), 9)],
    "torch.special.xlog1py": [(X, Y), (torch.zeros(3), torch.tensor([1.0, -1.0, float("nan")]))],
}
MODULES = {
    "torch.nn.HuberLoss": [((), {"delta": 0.5}, (UNIT, EDGES))],
    "torch.nn.RMSNorm": [((3,), {}, (EDGES,)), ((3,), {"eps": 1e-3, "elementwise_affine": False}, (EDGES,))],
}


def named(api):
    found = torch
    for part in api.split(".")[1:]:
        found = getattr(found, part)
    return found


def arguments(call):
    return (call[:-1], call[-1]) if isinstance(call[-1], dict) else (call, {})


class Reached(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operators.add(function)
        return function(*args, **(kwargs or {}))


def test_every_equivalent_is_tried():
    assert set(EQUIVALENTS) == {*CALLS, *MODULES}


@pytest.mark.parametrize("api", CALLS)
def test_a_function_gives_what_torch_gives(api):
    for call in CALLS[api]:
        positional, keywords = arguments(call)
        expected = named(api)(*positional, **keywords)
        actual = getattr(ascend_function, EQUIVALENTS[api])(*positional, **keywords)
        torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("api", MODULES)
def test_a_module_gives_what_torchs_gives(api):
    for positional, keywords, inputs in MODULES[api]:
        theirs = named(api)(*positional, **keywords)
        ours = getattr(ascend_function, EQUIVALENTS[api])(*positional, **keywords)
        ours.load_state_dict(theirs.state_dict())
        torch.testing.assert_close(ours(*inputs), theirs(*inputs))


def test_gradients_agree():
    for api in ("torch.hypot", "torch.nn.functional.huber_loss", "torch.logit", "torch.logcumsumexp"):
        extra = {"torch.logcumsumexp": (0,), "torch.logit": ()}.get(api, (EDGES,))
        grads = []
        for function in (named(api), getattr(ascend_function, EQUIVALENTS[api])):
            x = UNIT.clone().requires_grad_()
            function(x, *extra).sum().backward()
            grads.append(x.grad)
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize("version", ["2.1.0", "2.7.0", "2.13.0"])
def test_equivalents_are_made_of_operators_the_release_has(version):
    supported = table_for(version).supported
    # Copies and new tensors: PyTorch's own code for every device, over operators that all releases have.
    plain = {"aten::lift_fresh", "aten::_to_copy", "aten::full_like", "aten::ones_like", "aten::zeros_like"}
    for api, calls in CALLS.items():
        if verdict(api, version).kind in (VerdictKind.FALLBACK, VerdictKind.UNSUPPORTED):
            for call in calls:
                positional, keywords = arguments(call)
                if any(torch.is_tensor(part) and part.is_complex() for part in positional):
                    continue
                with Reached() as reached:
                    getattr(ascend_function, EQUIVALENTS[api])(*positional, **keywords)
                lacking = {
                    f"{op.namespace}::{op._schema.name.split('::')[1]}"
                    for op in reached.operators
                    if op.name() not in supported and not op.is_view
                }
                assert lacking <= plain, api
