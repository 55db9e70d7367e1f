"""The reference device: CUDA's part played on the CPU. In a process of its own, since it changes torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu import language
from gpu2npu.verify.recording.environment import RecordingSettings, settings

PROGRAM = """
import io
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
from gpu2npu.verify import reference

reference.install(2)


def refused(words, call):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


# What a program asks before it decides.
assert torch.cuda.is_available() and torch.cuda.device_count() == 2 and torch.cuda.current_device() == 0
x = torch.arange(6.0).view(2, 3).cuda()
assert x.is_cuda and str(x.device) == "cuda:0" and "device='cuda:0'" in repr(x)
assert torch.zeros(2, device="cuda:1").device == torch.device("cuda", 1)
with torch.cuda.device(1):
    assert torch.zeros(2).cuda().get_device() == torch.ones(2, device="cuda").get_device() == 1
assert isinstance(torch.cuda.FloatTensor(2), torch.cuda.FloatTensor)
assert x.type(torch.cuda.DoubleTensor).dtype is torch.float64

# Numbers on the right of what PyTorch has for tensors alone; a number changes no dtype.
whole, half = torch.arange(4, device="cuda"), torch.full((), 5.5, device="cuda", dtype=torch.float16)
assert (whole % 2).tolist() == [0, 1, 0, 1] and (whole & 1 | 2).tolist() == [2, 3, 2, 3]
assert torch.fmod(half, 2.0).dtype is torch.float16 and torch.copysign(half, -1).item() == -5.5
assert whole.clone().remainder_(3).tolist() == [0, 1, 2, 0] and torch.xlogy(half, 1).item() == 0
chosen = torch.distributions.Categorical(logits=torch.zeros(4, device="cuda")).log_prob(whole[:1])
assert abs(chosen.exp().item() - 0.25) < 1e-6

# Sparse tensors.
matrix = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [1.0, 2.0, 3.0], (2, 3)).cuda()
assert matrix.is_cuda and matrix._nnz() == 3 and matrix.coalesce().values().tolist() == [1.0, 5.0]
dense = torch.ones(3, 2, device="cuda", requires_grad=True)
torch.sparse.mm(matrix, dense).sum().backward()
assert dense.grad.tolist() == [[5.0, 5.0], [0.0, 0.0], [1.0, 1.0]]
assert matrix.cpu().to_dense().tolist() == matrix.to_dense().tolist() == [[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]]
rows = matrix.to_dense().to_sparse_csr()
assert rows.is_cuda and rows.crow_indices().tolist() == [0, 1, 2]
assert (rows @ dense.detach()).tolist() == [[1, 1], [5, 5]]
words = nn.Embedding(5, 2, sparse=True).cuda()
sparse_adam = torch.optim.SparseAdam(words.parameters(), lr=0.5)
before = words.weight.detach().clone()
words(torch.tensor([1, 3, 1], device="cuda")).sum().backward()
sparse_adam.step()
assert (words.weight != before).any(1).tolist() == [False, True, False, True, False]

sounds = torch.randn(6, 1, 4, device="cuda", requires_grad=True)
F.ctc_loss(sounds.log_softmax(-1), torch.tensor([[1, 2]], device="cuda"), [6], [2]).backward()
assert sounds.grad.is_cuda and sounds.grad.abs().sum() > 0

# As strict as CUDA.
refused("at least two devices, cuda:0 and cpu", lambda: x + torch.ones(2, 3))
refused("at least two devices, cuda:0 and cuda:1", lambda: x @ torch.ones(3, 2, device="cuda:1"))
refused("invalid device ordinal", lambda: torch.zeros(1, device="cuda:2"))
try:
    x.numpy()
except TypeError as error:
    assert "cuda:0" in str(error)
else:
    raise AssertionError("numpy() of a tensor on cuda")
assert (x + torch.tensor(1.0)).is_cuda  # a number may stay on the host
assert x[torch.tensor([1])].is_cuda  # so may indices

# Arithmetic and gradients are those of the CPU, to the bit.
def trained(device):
    torch.manual_seed(0)
    layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(64, 3)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.linspace(-1, 1, 2 * 2 * 36).view(2, 2, 6, 6).to(device)
    for _ in range(3):
        loss = F.cross_entropy(model(batch), torch.tensor([0, 2], device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), model


on_cpu, on_cuda = trained("cpu"), trained("cuda")
assert abs(on_cpu[0] - on_cuda[0]) < 1e-6
y = torch.randn(4, 4, device="cuda:1", requires_grad=True)
(y @ y).sum().backward()
assert str(y.grad.device) == "cuda:1"

# Views share memory, in-place writes are seen.
view = x.t()[1:]
view.zero_()
assert x.tolist() == [[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]]

# Mixed precision, scaling, streams, events.
model = on_cuda[1]
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.autocast("cuda"):
    out = model[4](torch.ones(1, 64, device="cuda"))
assert out.dtype is torch.float16
scaler.scale(out.float().sum()).backward()
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() == 1024.0
with torch.cuda.stream(torch.cuda.Stream()):
    torch.cuda.current_stream().synchronize()
    x.record_stream(torch.cuda.current_stream())
assert isinstance(torch.cuda.Stream(), torch.Stream) and torch.cuda.Stream(1).device == torch.device("cuda", 1)
assert nn.DataParallel(nn.Linear(3, 2)).cuda()(torch.ones(4, 3)).shape == (4, 2)  # a batch on the CPU
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record(), end.record()
assert start.elapsed_time(end) >= 0

# Checkpoints and pinned memory.
file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
assert torch.load(file)["0.weight"].is_cuda
file.seek(0)
assert not torch.load(file, map_location="cpu")["0.weight"].is_cuda
assert torch.ones(2).pin_memory().is_pinned() and not torch.ones(2).is_pinned()

# CUDA graphs cannot be played; their class can be named, as in annotations, and derived from.
kept: "torch.cuda.CUDAGraph | None" = None
assert isinstance(torch.cuda.CUDAGraph | None, object) and not isinstance(kept, torch.cuda.CUDAGraph)
try:
    torch.cuda.CUDAGraph()
    raise AssertionError("a graph was made")
except NotImplementedError as error:
    assert "record the original on a GPU" in str(error)

# What is computed anew for a backward pass drops the same elements.
for reentrant in (True, False):
    batch = torch.ones(64, device="cuda", requires_grad=True)
    kept = torch.utils.checkpoint.checkpoint(F.dropout, batch * 1, use_reentrant=reentrant)
    kept.sum().backward()
    assert torch.equal(batch.grad, kept.detach()) and 10 < kept.count_nonzero() < 54

# DataParallel on both cards.
class Seen(nn.Module):
    def forward(self, batch):
        cards.add(str(batch.device))
        return batch * 2


cards = set()
doubled = nn.DataParallel(Seen())(torch.ones(4, 1, device="cuda"))
assert cards == {"cuda:0", "cuda:1"} and doubled.tolist() == [[2.0]] * 4 and doubled.get_device() == 0
wrapped = nn.DataParallel(nn.Linear(3, 1).cuda())
wrapped(torch.ones(4, 3, device="cuda")).sum().backward()
assert wrapped.module.weight.grad.tolist() == [[4.0, 4.0, 4.0]]

# Recurrent cells, which CUDA fuses.
for kind in (nn.LSTM, nn.GRU):
    torch.manual_seed(1)
    cell = kind(3, 4)
    sequence = torch.linspace(0, 1, 15).view(5, 1, 3)
    expected = cell(sequence)[0]
    found = cell.cuda()(sequence.cuda())[0]
    assert torch.allclose(expected, found.cpu(), atol=1e-6)
    found.sum().backward()
    assert cell.weight_ih_l0.grad.is_cuda
"""


def test_a_build_for_gpus_names_the_command_for_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu2npu.verify.reference import accelerator

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(accelerator.CannotPlayError, match=r"torch==[\d.]+\+cpu --index-url https://\S+/whl/cpu\)$"):
        accelerator.believe(1)


def test_a_build_for_gpus_is_refused_in_the_language_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the program gets the language, which --lang may have set for `verify` alone."""
    import torch

    from gpu2npu.verify.reference.device_choice import choose_device

    monkeypatch.setattr(torch.version, "cuda", "12.6")
    with language.restored():
        language.use("zh")
        variables = RecordingSettings(tmp_path, tmp_path, 1, gpus=1).variables()
    with language.restored(), pytest.raises(SystemExit, match=r"是面向 GPU 的构建") as ended:
        found = settings(variables)
        assert found is not None
        choose_device(found)
    assert "is built for GPUs" not in str(ended.value)


@pytest.mark.usefixtures("cpu_build")
def test_cuda_is_played_as_cuda_behaves(training_python: list[str | Path], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = subprocess.run([*training_python, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("cpu_build")
def test_what_pytorch_holds_outlives_the_interpreter() -> None:
    """Its static objects read the table of CUDA's hooks when they end; glibc is asked to overwrite what is freed."""
    program = "from gpu2npu.verify import reference\nreference.install(1)\n"
    freed = {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | freed, check=False)
    assert done.returncode == 0
