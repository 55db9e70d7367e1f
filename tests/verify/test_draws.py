"""Random draws depend on seed, number, kind and shape alone; in processes of their own, since kernels are replaced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu.emulator.launch import emulating

PROGRAM = """
import torch
from gpu2npu.verify import reference

reference.install(2)
from gpu2npu.verify.recording import draws

seen = []
draws.install(lambda *draw: seen.append(draw))


def drawn(device, dtype=torch.float32):
    torch.manual_seed(3)
    return torch.randn(5, device=device, dtype=dtype).double().cpu()


# Device and dtype play no part.
assert torch.equal(drawn("cpu"), drawn("cuda"))
assert torch.equal(drawn("cpu"), drawn("cuda:1"))
assert (drawn("cpu") - drawn("cuda", torch.float16)).abs().max() < 2e-3

# Draws of another kind or shape in between change nothing; a second one of the same kind and shape is another.
torch.manual_seed(3)
torch.rand(7), torch.randperm(4), torch.randn(6)
assert torch.equal(torch.randn(5).double(), drawn("cpu"))
torch.manual_seed(3)
assert not torch.equal(torch.randn(5), torch.randn(5))

# A state that was kept can be returned to, on each device and in generators of one's own.
for generator in (torch.default_generator, torch.cuda.default_generators[0], torch.Generator()):
    generator.manual_seed(5)
    torch.randn(5, generator=generator, device=generator.device)
    kept = generator.get_state()
    once = torch.randn(5, generator=generator, device=generator.device)
    generator.set_state(kept)
    assert torch.equal(once, torch.randn(5, generator=generator, device=generator.device))

# Dropout keeps the same elements, whether it is one operator (CUDA) or composed (CPU, NPU).
def kept_by_dropout(device):
    torch.manual_seed(4)
    return torch.nn.functional.dropout(torch.ones(64, device=device), 0.3).cpu()


assert torch.equal(kept_by_dropout("cpu"), kept_by_dropout("cuda"))
assert 20 < kept_by_dropout("cpu").count_nonzero() < 64

# Each has its distribution.
torch.manual_seed(0)
many = 200_000
assert abs(torch.randn(many).std() - 1) < 0.01 and abs(torch.rand(many).mean() - 0.5) < 0.01
assert abs(torch.empty(many).exponential_(2.0).mean() - 0.5) < 0.01
assert abs(torch.full((many,), 0.3).bernoulli().mean() - 0.3) < 0.01
assert torch.rand(many, dtype=torch.float16).max() < 1
assert sorted(torch.randperm(9).tolist()) == list(range(9))
counts = torch.multinomial(torch.tensor([1.0, 0.0, 3.0]), 4000, replacement=True).bincount(minlength=3)
assert counts[1] == 0 and 2800 < counts[2] < 3200
assert set(torch.randint(3, 6, (100,)).tolist()) == {3, 4, 5}
assert seen[0] == ("normal", (5,), 3, 0), seen[0]
"""


@pytest.mark.usefixtures("cpu_build")
def test_draws_depend_on_seed_number_kind_and_shape_alone(training_python: list[str | Path], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = subprocess.run([*training_python, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


ATTENTION = """
import torch, torch_npu
from torch.nn import functional as F
from gpu2npu.verify.recording import draws

seen = []
draws.install(lambda *draw: seen.append(draw))
given = torch.randn(3, 2, 4, 8, 16)


def attended(device):
    seen.clear()
    torch.manual_seed(3)
    return F.scaled_dot_product_attention(*given.to(device), dropout_p=0.5).cpu(), list(seen)


(here, drawn), (there, also) = attended("cpu"), attended("npu")
assert drawn == also and len(drawn) == 1
torch.testing.assert_close(here, there)
"""


def test_attention_drops_out_the_same_on_an_npu(training_python: list[str | Path], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ATTENTION)
    environment = emulating(os.environ, python=sys.executable)
    done = subprocess.run([*training_python, script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
