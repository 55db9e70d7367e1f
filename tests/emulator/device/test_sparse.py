"""Sparse tensors on the NPU, beside torch's on the CPU and beside what torch_npu's tests expect
(test/test_sparse/test_sparse_coo.py in its repository)."""

import io
import os
import subprocess
import sys

import pytest
import torch

from gpu2npu.emulator.device.dispatch import limits
from gpu2npu.emulator.device.dispatch.limits import LimitError
from gpu2npu.emulator.device.sparse.dispatch import SHARED
from gpu2npu.emulator.soc import soc_named

INDICES = [[1, 2, 1, 2, 0], [2, 2, 2, 3, 0]]
UNARY = sorted(
    name for name in SHARED.read_text().split() if name.isalpha() and f"{name}_" in SHARED.read_text().split()
)
REFUSED = "CAUTION: The operator 'aten::{}' is not currently supported on the NPU backend."


@pytest.fixture(autouse=True)
def unchecked():
    with torch.sparse.check_sparse_tensor_invariants(False):
        yield


def pair(dtype=torch.float32, coalesced=False, dense=(), indices=INDICES, shape=(4, 4)):
    """The same sparse tensor on the CPU and on the NPU; indices repeat unless it is coalesced."""
    values = torch.randn(len(indices[0]), *dense).mul(3).to(dtype)
    cpu = torch.sparse_coo_tensor(torch.tensor(indices), values, (*shape, *dense))
    cpu = cpu.coalesce() if coalesced else cpu
    npu = torch.sparse_coo_tensor(cpu._indices().npu(), cpu._values().npu(), cpu.shape)
    return cpu, npu._coalesced_(coalesced)


def check(npu, cpu, **tolerance):
    assert npu.device.type == "npu"
    assert npu.layout is cpu.layout
    if cpu.is_sparse:
        assert npu.is_coalesced() == cpu.is_coalesced()
        assert torch.equal(npu._indices().cpu(), cpu._indices())
        npu, cpu = npu._values(), cpu._values()
    torch.testing.assert_close(npu.cpu(), cpu, equal_nan=True, **tolerance)


def test_parts():
    cpu, npu = pair(dense=(2,))
    assert (npu._nnz(), npu.sparse_dim(), npu.dense_dim(), npu.shape) == (5, 2, 1, (4, 4, 2))
    assert npu.device == npu._indices().device == torch.device("npu:0")
    check(npu, cpu)
    check(npu.coalesce().indices(), cpu.coalesce().indices())
    check(npu.coalesce().values(), cpu.coalesce().values())
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        npu.indices()
    assert "layout=torch.sparse_coo" in repr(npu)
    assert "npu:0" in repr(npu)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64])
@pytest.mark.parametrize(
    ("indices", "shape", "dense"),
    [
        (INDICES, (4, 4), ()),
        (INDICES, (4, 4), (2, 3)),
        ([[3, 1, 3, 0, 1, 3]], (5,), ()),
        ([[0, 1, 0], [1, 1, 1], [2, 0, 2]], (2, 2, 3), (2,)),
        ([[], []], (3, 2), ()),
        ([[1], [1]], (3, 2), (0,)),
    ],
)
def test_coalesce_and_to_dense(dtype, indices, shape, dense):
    cpu, npu = pair(dtype, dense=dense, indices=[[int(i) for i in row] for row in indices], shape=shape)
    exact = {} if dtype in (torch.float16, torch.bfloat16) else {"rtol": 0, "atol": 1e-6}
    cpu, npu = (each._coalesced_(False) for each in (cpu, npu)) if indices[0] else (cpu, npu)
    check(npu.coalesce(), cpu.coalesce(), **exact)
    check(npu.to_dense(), cpu.to_dense(), **exact)
    check(npu.coalesce().to_dense(), cpu.to_dense(), **exact)


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend910_9391", "Ascend950PR", "Ascend910A", "Ascend310P3"])
def test_chips_that_coalesce(chip, monkeypatch):
    """CANN's document of aclnnCoalesceSparse: A2 and A3."""
    monkeypatch.setattr(limits, "current_soc", lambda: soc_named(chip))
    twice = torch.sparse_coo_tensor(torch.tensor([[1, 1]]).npu(), torch.ones(2).npu(), (3,))
    if chip.startswith("Ascend910") and chip != "Ascend910A":
        assert twice.coalesce().values().tolist() == [2]
        return
    with pytest.raises(RuntimeError, match="aclnnCoalesceSparse"):
        twice.coalesce()
    one = torch.sparse_coo_tensor(torch.tensor([[1]]).npu(), torch.ones(1).npu(), (3,))
    assert one.coalesce().is_coalesced()


def test_sixteen_bits_add_up_in_float32():
    at = torch.zeros(1, 4096, dtype=torch.int64, device="npu")
    total = torch.sparse_coo_tensor(at, torch.ones(4096, dtype=torch.float16, device="npu"), (1,)).coalesce()
    assert total.values().tolist() == [4096]  # in float16 the sum stays at 2048


def test_moves_between_devices_and_files():
    cpu, npu = pair()
    check(cpu.npu(), cpu)
    assert torch.equal(npu.cpu().to_dense(), cpu.to_dense())
    check(npu.to("npu:1").to("npu:0"), cpu)
    check(npu.half(), cpu.half())
    check(npu.clone(), cpu)
    file = io.BytesIO()
    torch.save(npu, file)
    file.seek(0)
    check(torch.load(file), cpu)
    other = torch.rand(4, 4).to_sparse().npu()
    other.copy_(npu)
    check(other, cpu)


@pytest.mark.parametrize("dim", [None, 1])
def test_dense_tensors_become_sparse(dim):
    cpu = torch.tensor([[0.0, 2, 0], [0, 0, 0], [1, 0, 3]])
    check(cpu.npu().to_sparse(*filter(None, (dim,))), cpu.to_sparse(*filter(None, (dim,))))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("way", ["new", "in place", "out"])
def test_unary_operators(name, way):
    cpu, npu = pair(coalesced=True)
    if way == "new":
        check(getattr(npu, name)(), getattr(cpu, name)())
    elif way == "in place":
        check(getattr(npu, f"{name}_")(), getattr(cpu, f"{name}_")())
    elif f"{name}.out" in SHARED.read_text().split():
        outs = torch.zeros_like(cpu), torch.zeros_like(npu)
        getattr(torch, name)(cpu, out=outs[0])
        getattr(torch, name)(npu, out=outs[1])
        check(outs[1], outs[0])


def test_there_are_many_unary_operators():
    assert len(UNARY) >= 20
    assert {"abs", "neg", "sqrt", "tanh", "trunc"} <= set(UNARY)


def test_addition():
    (a_cpu, a), (b_cpu, b) = pair(), pair()
    dense = torch.rand(4, 4)
    check((a + b).coalesce(), (a_cpu + b_cpu).coalesce())
    check(torch.add(a, b, alpha=-2).coalesce(), torch.add(a_cpu, b_cpu, alpha=-2).coalesce())
    check((a - b).coalesce(), (a_cpu - b_cpu).coalesce())
    check(dense.npu() + a, dense + a_cpu)
    check(dense.npu().add_(a, alpha=-0.5), dense.clone().add_(a_cpu, alpha=-0.5))
    check(dense.half().npu() + a, dense.half() + a_cpu)
    many = a + a + a + a  # 20 values in 16 places
    assert many._nnz() == 4
    check(many.coalesce(), (a_cpu * 4).coalesce())
    empty = torch.sparse_coo_tensor(size=(4, 4), device="npu")
    check((a + empty).coalesce(), a_cpu.coalesce())
    check((empty + a).coalesce(), a_cpu.coalesce())


def test_addition_that_the_npu_refuses():
    _, npu = pair()
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported. Use add\(dense, sparse\) instead"):
        npu + torch.rand(4, 4, device="npu")
    with pytest.raises(RuntimeError, match="dense-sparse addition does not currently support broadcasting"):
        torch.rand(1, 4, device="npu") + npu
    with pytest.raises(RuntimeError, match="expected 'self' and 'other' to have same size, but"):
        npu + torch.sparse_coo_tensor(size=(4, 5), device="npu")
    with pytest.raises(RuntimeError, match="same density, but 'self' has 2 sparse dimensions while 'other' has 1"):
        npu + torch.rand(4, 4).to_sparse(1).npu()
    with pytest.raises(RuntimeError, match="non-contiguous output tensor does not work"):
        torch.rand(4, 4, device="npu").t().add_(npu)


def test_products_are_computed_dense_and_hold_no_zeros():
    cpu, npu = pair()
    dense = torch.rand(4, 4)
    dense[1, 2] = 0
    check(npu * 2, (cpu * 2).coalesce())
    check(2 * npu, (cpu * 2).coalesce())
    product = npu * dense.npu()
    check(product, (cpu.to_dense() * dense).to_sparse())
    assert product._nnz() == 3
    other_cpu, other = pair()
    check(npu * other, (cpu.to_dense() * other_cpu.to_dense()).to_sparse())
    check(npu / 2, cpu / 2)
    with pytest.raises(RuntimeError, match="expected 'self' or 'other' to be a sparse tensor"):
        torch.mul(dense.npu(), dense.npu(), out=product)


def test_sums_norms_and_the_rest_that_pytorch_shares():
    cpu, npu = pair(coalesced=True)
    check(npu.sum(), cpu.sum())
    check(torch.sparse.sum(npu, 0), torch.sparse.sum(cpu, 0))
    check(torch.sparse.sum(npu, (0, 1)), torch.sparse.sum(cpu, (0, 1)))
    check(npu.norm(), cpu.norm())
    check(npu.pow(2), cpu.pow(2))
    check(npu.t(), cpu.t())
    check(npu.unsqueeze(0), cpu.unsqueeze(0))
    check(torch.cat([npu, npu]), torch.cat([cpu, cpu]))
    check(npu.max(), cpu.to_dense().max())
    check(npu.narrow_copy(0, 1, 2), cpu.narrow_copy(0, 1, 2))
    check(npu.isnan(), cpu.isnan())
    check(npu.zero_(), cpu.zero_())


def test_masks():
    (cpu, npu), (mask_cpu, mask) = pair(coalesced=True), pair(indices=[[1, 3, 0], [2, 3, 1]], coalesced=True)
    dense = torch.rand(4, 4)
    check(npu.sparse_mask(mask), cpu.sparse_mask(mask_cpu))
    check(dense.npu().sparse_mask(mask), dense.sparse_mask(mask_cpu))
    empty = torch.sparse_coo_tensor(size=(4, 4), device="npu")
    assert empty.sparse_mask(mask)._values().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("addmm", lambda a: torch.sparse.mm(a, torch.rand(4, 2, device="npu"))),
        ("addmm", lambda a: a @ torch.rand(4, 2, device="npu")),
        ("addmm", lambda a: torch.sparse.addmm(torch.rand(4, 2, device="npu"), a, torch.rand(4, 2, device="npu"))),
        ("_sparse_softmax", lambda a: torch.sparse.softmax(a, 1)),
        ("index_select", lambda a: a.index_select(0, torch.tensor([0], device="npu"))),
    ],
)
def test_other_operators_raise_as_in_torch_npu(name, call):
    with pytest.raises(RuntimeError, match=f"^{REFUSED.format(name)}"):
        call(pair(coalesced=True)[1])


def trained(device, optimizer, steps=3, **options):
    torch.manual_seed(1)
    embedding = torch.nn.Embedding(10, 3, sparse=True).to(device)
    step = optimizer(embedding.parameters(), lr=0.1, **options)
    for _ in range(steps):
        step.zero_grad()
        embedding(torch.tensor([1, 2, 1, 4], device=device)).square().sum().backward()
        step.step()
    return embedding.weight


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adagrad])
def test_a_sparse_embedding_learns(optimizer):
    npu, cpu = trained("npu", optimizer), trained("cpu", optimizer)
    assert npu.grad.is_sparse
    assert npu.grad.device.type == "npu"
    check(npu.grad.coalesce(), cpu.grad.coalesce())
    torch.testing.assert_close(npu.detach().cpu(), cpu.detach())


def test_gradients_of_a_sparse_embedding_accumulate():
    weights = []
    for device in ("cpu", "npu"):
        torch.manual_seed(1)
        embedding = torch.nn.Embedding(5, 2, sparse=True).to(device)
        for rows in ([1, 2], [2, 3]):
            embedding(torch.tensor(rows, device=device)).sum().backward()
        weights.append(embedding.weight)
    check(weights[1].grad.coalesce(), weights[0].grad.coalesce())


def test_sparse_adam_fails_as_torch_npu_multiplies():
    """Its first step masks moments of zeros, and torch_npu's product keeps no zeros."""
    with pytest.raises(LimitError, match=r"^torch.optim.SparseAdam: .*without the zeros that it needs. Use dense"):
        trained("npu", torch.optim.SparseAdam)


def test_sparse_adam_goes_on_from_moments_without_zeros():
    """Its sentence is of the zeros alone: moments that were trained elsewhere have none."""
    weights = {}
    for device in ("cpu", "npu"):
        weight, moments = torch.ones(4, 2, device=device), [torch.full((4, 2), 0.5, device=device) for _ in range(2)]
        rows = torch.tensor([[1, 3]], device=device)
        grad = torch.sparse_coo_tensor(rows, torch.full((2, 2), 2.0, device=device), (4, 2))
        torch.optim._functional.sparse_adam([weight], [grad], *([each] for each in moments), [3], **ADAM)
        weights[device] = weight.cpu()
    torch.testing.assert_close(weights["npu"], weights["cpu"])


ADAM = {"eps": 1e-8, "beta1": 0.9, "beta2": 0.999, "lr": 0.1, "maximize": False}


@pytest.mark.parametrize(
    ("release", "missing"),
    [("2.1.0.post0", "_sparse_coo_tensor_with_dims_and_tensors"), ("2.7.1.post2", "mul.out"), ("2.9.0.post6", "")],
)
def test_a_release_has_what_its_wheel_lists(release, missing, torch_python, tmp_path):
    source = (
        "import torch, torch_npu\n"
        "i = torch.tensor([[0, 1]], device='npu')\n"
        "print((torch.sparse_coo_tensor(i, torch.ones(2, device='npu'), (2,)) * 3).to_dense().tolist())"
    )
    script = tmp_path / "script.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "gpu2npu", "run", "--torch-npu", release, *torch_python, script],
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    if missing:
        assert REFUSED.format(missing) in done.stderr
    else:
        assert done.stdout == "[3.0, 3.0]\n"
