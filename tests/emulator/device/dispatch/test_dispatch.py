import warnings

import numpy as np
import pytest
import torch

from gpu2npu.emulator.device.dispatch import dispatch, tally
from gpu2npu.emulator.device.dispatch.tally import ComputedBy

SAME_DEVICE = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


def counted(function):
    tally.reset()
    function()
    return dict(tally.counts().keys())


def test_mixing_devices_raises_torchs_own_words():
    x, n = torch.ones(2, 2), torch.ones(2, 2, device="npu")
    for mixed in (lambda: n + x, lambda: x + n, lambda: x @ n, lambda: torch.cat([n, x]), lambda: n.add_(x)):
        with pytest.raises(RuntimeError, match=SAME_DEVICE.format("npu:0", "cpu")):
            mixed()
    with pytest.raises(RuntimeError, match=SAME_DEVICE.format("npu:0", "npu:1")):
        n + n.npu(1)
    with pytest.raises(RuntimeError, match=SAME_DEVICE.format("npu:0", "cpu")):
        torch.nn.functional.linear(n, x)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda on: torch.ones(3, device=on) + torch.ones(4, device=on),
        lambda on: torch.ones(3, device=on).mul_(torch.ones(4, device=on)),
        lambda on: torch.nn.functional.linear(torch.ones(2, 4, device=on), torch.ones(3, 3, device=on)),
        lambda on: torch.stack([torch.ones(2, device=on), torch.ones(3, device=on)]),
        lambda on: torch.where(torch.ones(2, device=on) > 0, torch.ones(3, device=on), 0.0),
        lambda on: torch.ones(2, 3, device=on).sum(5),
        lambda on: torch.ones(3, device=on)[torch.tensor([5], device=on)],
    ],
)
def test_mistakes_are_reported_in_torchs_words(mistake):
    with pytest.raises((RuntimeError, IndexError)) as on_cpu:
        mistake("cpu")
    with pytest.raises(type(on_cpu.value)) as on_npu:
        mistake("npu")
    assert str(on_npu.value) == str(on_cpu.value)


def test_what_is_written_or_indexed_must_be_on_the_npu():
    n, total = torch.ones((), device="npu"), torch.tensor(0.0)
    with pytest.raises(RuntimeError, match=SAME_DEVICE.format("npu:0", "cpu")):
        total += n
    with pytest.raises(RuntimeError, match=r"on the same device as the indexed tensor \(cpu\)"):
        torch.ones(3)[torch.tensor([0], device="npu")]


def test_a_zero_dimensional_cpu_tensor_may_join_where_torch_lets_it():
    n = torch.ones(2, device="npu")
    assert (n * torch.tensor(3.0)).tolist() == [3, 3]
    assert (torch.tensor(3.0) - n).tolist() == [2, 2]
    assert (n * torch.tensor(3.0)).device == n.device
    assert n.masked_fill(n > 0, torch.tensor(5.0)).tolist() == [5, 5]
    assert n[torch.tensor([1, 0])].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="same device"):
        torch.dot(n, torch.tensor(3.0))


def test_comparisons_take_a_zero_dimensional_cpu_tensor_where_op_plugin_does():
    n, zero = torch.tensor([-1.0, 2.0], device="npu"), torch.tensor(0.0)
    for compare in (torch.gt, torch.le, torch.lt, torch.ge, torch.eq, torch.ne):
        assert torch.equal(compare(n, zero).cpu(), compare(n.cpu(), zero))
    for compare in (torch.lt, torch.eq, torch.ne):
        assert torch.equal(compare(zero, n).cpu(), compare(zero, n.cpu()))
    for compare in (torch.gt, torch.le):
        with pytest.raises(RuntimeError, match=r"on the same device\. Expected NPU tensor"):
            compare(zero, n)


def test_an_expanded_tensor_is_not_written():
    spread = torch.ones(1, device="npu").expand(3)
    for write in (lambda: spread.add_(1), lambda: torch.add(spread, 1, out=spread)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            write()
    x = torch.arange(5.0, device="npu")
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a si"):
        x[1:].copy_(x[:-1])
    assert x.copy_(x).tolist() == [0, 1, 2, 3, 4]
    assert x[:2].copy_(x[2:4]).tolist() == [2, 3]
    single = torch.ones(2, 1, device="npu").expand(2, 1)
    assert single.add_(1).tolist() == [[2], [2]]


def test_in_place_casts_as_torch_casts():
    n = torch.ones(2, dtype=torch.half, device="npu")
    n.add_(torch.full((2,), 0.5).npu())
    assert n.dtype is torch.half
    assert n.tolist() == [1.5, 1.5]
    whole = torch.ones(2, dtype=torch.int64, device="npu")
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        whole.add_(1.5)
    with pytest.raises(RuntimeError, match="output with shape"):
        n.add_(torch.ones(3, 2).npu())


def test_out_is_filled_resized_and_returned():
    n = torch.ones(2, 3, device="npu")
    out = torch.empty(2, 3, device="npu")
    view = out[0]
    assert torch.add(n, n, out=out) is out
    assert view.tolist() == [2, 2, 2]
    empty = torch.empty(0, device="npu")
    torch.add(n, n, out=empty)
    assert empty.shape == (2, 3)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.add(n, n, out=torch.empty(1, device="npu"))
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    torch.max(torch.tensor([[1.0, 4.0], [3.0, 2.0]]).npu(), 1, out=(values, indices))
    assert values.tolist() == [4, 3]
    assert indices.tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(n, n, out=torch.empty(2, 3, dtype=torch.int64, device="npu"))


def test_numbers_promote_as_numbers():
    half = torch.ones(2, dtype=torch.half, device="npu")
    assert (half * 2.5).dtype is torch.half
    assert (torch.ones(2, dtype=torch.int32, device="npu") * 2.5).dtype is torch.float32
    assert torch.true_divide(torch.ones(2, dtype=torch.int64, device="npu"), 2).dtype is torch.float32


def test_float64_is_refused_by_the_cube_unit_alone():
    d = torch.ones(2, 2, dtype=torch.float64, device="npu")
    assert (d + d).sum().item() == 8
    for cube in (
        lambda: d @ d,
        lambda: torch.nn.functional.conv1d(d[None], d[None]),
        lambda: torch.baddbmm(*[d[None]] * 3),
    ):
        with pytest.raises(RuntimeError, match=r"call aclnn.* failed.*DT_DOUBLE.*support list"):
            cube()


def test_what_has_no_kernel_is_borrowed_and_counted(plain, borrowing):
    x = torch.tensor([0.3, 1.7])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counts = counted(lambda: plain(x.npu()))
    assert counts == {plain.default.name(): ComputedBy.BORROWED}
    assert torch.equal(plain(x.npu()).cpu(), x * 2)


def test_what_a_kernel_computes_is_numpy():
    n = torch.ones(3, device="npu")
    assert counted(lambda: n + n) == {"aten::add.Tensor": ComputedBy.NUMPY}
    assert counted(lambda: n.add_(n)) == {"aten::add.Tensor": ComputedBy.NUMPY}
    assert counted(lambda: (n.clone(), n.cpu(), n.view(1, 3), n.expand(2, 3), n.fill_(1))) == {}


def test_what_the_npu_lacks_is_computed_by_torchs_cpu_code_whatever_kernels_there_are(monkeypatch):
    monkeypatch.setenv("GPU2NPU_STRICT", "1")
    x = torch.linspace(-1, 1, 5)
    run = dispatch._computed(torch.ops.aten.special_airy_ai.default, lambda self: self, True)
    assert torch.equal(run(x.npu()).cpu(), torch.special.airy_ai(x))


def test_a_number_in_the_place_of_a_tensor_goes_to_the_cpu_too():
    x, out = torch.tensor([1.0, -2.0]), torch.empty(2, device="npu")
    for sign in (-3.14, 2, True):
        expected = torch.copysign(x, sign).tolist()
        assert torch.copysign(x.npu(), sign).tolist() == x.npu().copysign_(sign).tolist() == expected
        assert torch.copysign(x.npu(), sign, out=out).tolist() == expected


@pytest.mark.parametrize("function", [torch.det, torch.logdet, lambda x: torch.slogdet(x)[1]])
def test_the_gradient_of_a_determinant_of_a_view_with_gaps(function):
    torch.manual_seed(0)
    wide = torch.randn(3, 6)
    wide[0] *= torch.det(wide[:, ::2]).sign()  # not symmetric, as its transpose has another gradient
    gradients = []
    for x in (wide.clone().requires_grad_(), wide.npu().requires_grad_()):
        function(x[:, ::2]).backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0])


def test_an_operator_without_half_on_the_cpu_runs_in_float32():
    x = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
    result = torch.special.airy_ai(x.npu().half())
    assert result.dtype is torch.half
    assert torch.allclose(result.float().cpu(), torch.special.airy_ai(x), atol=1e-3)


@pytest.fixture
def scratch():
    """A library with operators of our own, and kernels for them."""
    library = torch.library.Library("gpu2npu_test", "FRAGMENT")
    yield library
    library._destroy()


@pytest.mark.parametrize("returned", ["Tensor(a)", "Tensor"])
def test_a_row_of_a_view_with_gaps_by_another_librarys_code(scratch, returned, borrowing):
    scratch.define(f"row(Tensor(a) x) -> {returned}" if "(" in returned else "row(Tensor x) -> Tensor")
    scratch.impl("row", lambda x: x[1], "CPU")
    x = torch.arange(12.0).view(3, 4).npu()[1:, ::2]
    row = torch.ops.gpu2npu_test.row(x)
    assert row.tolist() == [8, 10]
    row.fill_(0)
    assert x.tolist() == [[4, 6], [0, 0] if "(" in returned else [8, 10]]


def test_a_kernel_sees_arrays_numpy_dtypes_and_lists(scratch):
    scratch.define("mix(Tensor a, Tensor?[] several, ScalarType? dtype=None, *, Tensor? extra=None) -> Tensor")
    seen = []

    def mix(a, several, dtype=None, *, extra=None):
        seen.append((a, several, dtype, extra))
        return np.add(a, several[0])

    dispatch.register("gpu2npu_test::mix", mix)
    n = torch.ones(2).npu()
    result = torch.ops.gpu2npu_test.mix(n, [n, None], torch.bfloat16, extra=n)
    a, several, dtype, extra = seen[0]
    assert result.tolist() == [2, 2]
    assert type(a) is type(several[0]) is type(extra) is np.ndarray
    assert several[1] is None
    assert dtype.name == "bfloat16"


def test_a_kernel_may_write_its_written_arguments(scratch):
    scratch.define("bump_(Tensor(a!)[] several, Tensor(b!) count, float by) -> ()")

    def bump(several, count, by):
        for each in several:
            each += by
        count += len(several)

    dispatch.register("gpu2npu_test::bump_", bump)
    several, count = [torch.zeros(2).npu(), torch.zeros(3, dtype=torch.bfloat16).npu()], torch.zeros(1).npu()
    torch.ops.gpu2npu_test.bump_(several, count, 1.5)
    assert [t.tolist() for t in several] == [[1.5] * 2, [1.5] * 3]
    assert count.item() == 2


def test_a_result_never_shares_memory_with_an_argument(scratch):
    scratch.define("same(Tensor a) -> Tensor")
    scratch.define("part(Tensor a) -> Tensor")
    scratch.define("wide(Tensor a) -> Tensor")
    dispatch.register("gpu2npu_test::same", lambda a: a)
    dispatch.register("gpu2npu_test::part", lambda a: a[1:].T)
    dispatch.register("gpu2npu_test::wide", lambda a: np.broadcast_to(a, (2, *a.shape)))
    n = torch.ones(3, 2).npu()
    for name in ("same", "part", "wide"):
        result = getattr(torch.ops.gpu2npu_test, name)(n)
        result.zero_()
        assert result.is_contiguous()
        assert n.sum().item() == 6


def test_a_kernel_that_declines_leaves_the_operator_to_be_borrowed(scratch, borrowing):
    scratch.define("shy(Tensor a, *, ScalarType? dtype=None) -> Tensor")
    scratch.impl("shy", lambda a, *, dtype=None: (a + 1).to(dtype), "CPU")

    def shy(a, *, dtype=None):
        raise NotImplementedError

    dispatch.register("gpu2npu_test::shy", shy)
    n = torch.ones(2).npu()
    counts = counted(lambda: torch.ops.gpu2npu_test.shy(n, dtype=torch.int32).tolist())
    assert counts == {"gpu2npu_test::shy": ComputedBy.BORROWED}


def test_an_unknown_operator_name_is_an_error():
    with pytest.raises(ValueError, match="has no operator aten::no_such"):
        dispatch.register("aten::no_such", lambda: None)
    with pytest.raises(ValueError, match=r"has no operator aten::add.no_such"):
        dispatch.register("aten::add.no_such", lambda: None)


def test_two_results_that_are_one_array_to_the_kernel_have_memory_of_their_own(monkeypatch):
    import torch_npu

    x, weight = torch.randn(4, 8).npu(), torch.ones(8).npu()
    wide, narrow, *_ = torch_npu.npu_add_rms_norm_cast(x, x, weight)  # of float32 both are the same numbers
    assert wide.equal(narrow)
    before = narrow.clone()
    wide.zero_()
    assert narrow.equal(before)
    unraisable = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)
    del wide, narrow
    assert not unraisable
