"""Classes that an affinity kind replaces by a subclass, where something asks for the very class."""

import pytest

from gpu2npu.codemods.affinity.codemod import fixed
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine.torch_library import TORCH

MODEL = b"from torch import nn\nnorm = nn.RMSNorm(8)\n"


@pytest.mark.parametrize(
    ("other", "is_left"),
    [
        ("type(m) is nn.RMSNorm", True),
        ("nn.RMSNorm != m.__class__", True),
        ("{nn.RMSNorm: 1}.get(type(m))", True),
        ("type(m) in (nn.Linear, nn.RMSNorm)", True),
        ("type(m) in [nn.RMSNorm]", True),
        ("norms = (nn.LayerNorm, nn.RMSNorm)", True),
        ("register(nn.RMSNorm)", True),
        ("register('norm', nn.RMSNorm)", True),
        ("known.register('norm', nn.RMSNorm)", True),
        ("def f(cls=nn.RMSNorm): pass", True),
        ("match(nn.RMSNorm.__name__)", True),
        ("isinstance(m, nn.RMSNorm)", False),
        ("isinstance(m, (nn.LayerNorm, nn.RMSNorm))", False),
        ("isinstance(m, nn.LayerNorm | nn.RMSNorm)", False),
        ("class Norm(nn.RMSNorm): pass", False),
        ("def f(m: nn.RMSNorm) -> nn.RMSNorm: pass", False),
        ("def f(m: nn.RMSNorm | None) -> None: pass", False),
        ("m: nn.RMSNorm = nn.RMSNorm(8)", False),
        ("type(m) is nn.LayerNorm", False),
    ],
)
def test_a_module_whose_class_is_compared_is_left(other: str, is_left: bool) -> None:
    sources = {"model.py": MODEL, "other.py": f"from torch import nn\n{other}\n".encode()}
    rewritten = fixed(TrainingProgram(sources, TORCH, "2.7.1", False), ["rms-norm-module"])
    assert ("model.py" not in rewritten) is is_left
