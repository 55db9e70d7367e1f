"""Sparse tensors in CSR, CSC, BSR and BSC: what torch_npu registers for them is as on the CPU, the rest raises."""

import os
import subprocess
import sys

import pytest
import torch

DENSE = torch.tensor([[0.0, 2, 0, 0], [0, 0, 0, 0], [3, 0, 0, -4], [5, 0, 0, 0]])
MAKERS = {
    "sparse_csr": torch.sparse_csr_tensor,
    "sparse_csc": torch.sparse_csc_tensor,
    "sparse_bsr": torch.sparse_bsr_tensor,
    "sparse_bsc": torch.sparse_bsc_tensor,
}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def unchecked():
    with torch.sparse.check_sparse_tensor_invariants(False):
        yield


def parts(name):
    """The tensor on the CPU, and its compressed indices, plain indices and values."""
    layout = getattr(torch, name)
    cpu = DENSE.to_sparse(layout=layout, blocksize=(2, 2) if name[-3] == "b" else None)
    rows = layout in (torch.sparse_csr, torch.sparse_bsr)
    indices = (cpu.crow_indices(), cpu.col_indices()) if rows else (cpu.ccol_indices(), cpu.row_indices())
    return cpu, *indices, cpu.values()


@pytest.mark.parametrize("name", MAKERS)
def test_constructors_and_what_is_shared_with_the_cpu(name, borrowing):
    cpu, compressed, plain, values = parts(name)
    layout = getattr(torch, name)
    made = [
        MAKERS[name](compressed.npu(), plain.npu(), values.npu(), (4, 4)),
        MAKERS[name](compressed.tolist(), plain.tolist(), values.tolist(), (4, 4), device="npu"),
        torch.sparse_compressed_tensor(compressed.npu(), plain.npu(), values.npu(), (4, 4), layout=layout),
        cpu.npu(),
        cpu.to("npu"),
    ]
    for npu in made:
        assert (npu.device.type, npu.layout, npu._nnz()) == ("npu", layout, cpu._nnz())
        assert torch.equal(npu.values().cpu(), values)
        assert torch.equal(npu.to_dense().cpu(), DENSE)
    npu = made[0]
    assert "layout=torch.sparse_" in repr(npu)
    for function in (torch.sin, torch.abs, torch.sqrt, torch.neg, torch.clone):
        torch.testing.assert_close(function(npu).values().cpu(), function(cpu).values(), equal_nan=True)
    assert npu.sum().item() == DENSE.sum().item()
    assert torch.equal((npu * 2).to_dense().cpu(), DENSE * 2)
    assert torch.equal(npu.cpu().to_dense(), DENSE)
    assert torch.equal(npu.to_sparse().to_dense().cpu(), DENSE)


@pytest.mark.parametrize("name", MAKERS)
def test_invariants_are_checked(name, borrowing):
    _, compressed, plain, values = parts(name)
    make = MAKERS[name]
    assert torch.equal(
        make(compressed.npu(), plain.npu(), values.npu(), (4, 4), check_invariants=True).cpu().to_dense(), DENSE
    )
    with torch.sparse.check_sparse_tensor_invariants():
        make(compressed.npu(), plain.npu(), values.npu(), (4, 4))
        with pytest.raises(RuntimeError, match="is not satisfied"):
            make(compressed.npu(), plain.npu() + 9, values.npu(), (4, 4))


@pytest.mark.parametrize("name", MAKERS)
def test_a_dense_tensor_becomes_none(name, borrowing):
    block = {"blocksize": (2, 2)} if name[-3] == "b" else {}
    words = f"the NPU returns no tensor of layout torch.{name}"
    with pytest.raises(NotImplementedError, match=words):
        getattr(DENSE.npu(), f"to_{name}")(*block.values())
    with pytest.raises(NotImplementedError, match=words):
        DENSE.npu().to_sparse(layout=getattr(torch, name), **block)


def test_rows_do_not_become_columns(borrowing):
    with pytest.raises(NotImplementedError, match="the NPU has no conversion from"):
        parts("sparse_csr")[0].npu().to_sparse(layout=torch.sparse_csc)


def test_rows_of_a_coordinate_tensor(borrowing):
    npu = DENSE.npu().to_sparse().to_sparse_csr()
    assert npu.crow_indices().tolist() == [0, 1, 1, 3, 4]
    assert torch.equal(npu.to_dense().cpu(), DENSE)


def test_there_are_no_matrix_products():
    npu = parts("sparse_csr")[0].npu()
    with pytest.raises(NotImplementedError, match=r"Could not run .aten::addmm.out. .* .SparseCsr"):
        npu @ DENSE.npu()


def test_what_the_npu_lacks_is_one_sentence_and_what_to_do():
    with pytest.raises(NotImplementedError) as raised:
        torch.sparse.mm(parts("sparse_csr")[0].npu(), DENSE.npu().t(), "sum")
    first = str(raised.value).splitlines()[0]
    assert first.startswith("Could not run 'aten::_sparse_mm_reduce_impl' with arguments from the 'SparseCsrnpu' back")
    assert first.endswith("Call it with x.to_dense(), or on the CPU.")


@pytest.mark.parametrize(("release", "there"), [("2.3.1.post6", False), ("2.4.0", True)])
def test_releases_before_2_4_register_nothing(release, there, torch_python, tmp_path):
    source = (
        "import torch, torch_npu\n"
        "i = torch.tensor([0, 1], device='npu')\n"
        "print(torch.sparse_csr_tensor(i, i[:1], torch.ones(1, device='npu'), (1, 1)).to_dense().tolist())"
    )
    script = tmp_path / "script.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "gpu2npu", "run", "--torch-npu", release, *torch_python, script],
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout == "[[1.0]]\n") == there
    assert ("Could not run" in done.stderr) == (not there)
