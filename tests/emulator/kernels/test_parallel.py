import numpy as np
import pytest

from gpu2npu.emulator.kernels import KERNELS, load, parallel


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Three threads, whatever the machine has."""
    monkeypatch.setattr(parallel, "thread_count", lambda: 3)
    monkeypatch.setattr(parallel, "_pools", {})
    yield
    for pool in parallel._pools.values():
        pool.shutdown()


@pytest.mark.parametrize(("count", "elements", "block"), [(10, 100, 10), (7, 7000, 10), (3, 3, 100), (0, 0, 4)])
def test_blocks_cover_everything_once(count, elements, block):
    covered = [number for part in parallel.blocks(count, elements, block) for number in range(count)[part]]
    assert covered == list(range(count))


def test_results_come_in_order_and_errors_are_raised():
    parts = parallel.blocks(20, 20, 1)
    assert parallel.run(lambda part: part.start, parts) == list(range(20))

    def fail(part):
        if part.start == 7:
            raise ArithmeticError("block 7")

    with pytest.raises(ArithmeticError, match="block 7"):
        parallel.run(fail, parts)


def test_no_thread_warns_of_infinities():
    with np.errstate(all="ignore"):
        x = np.zeros((9, 1 << 16), np.float32)
        result = parallel.by_rows(lambda out, y: np.divide(1, y, out=out), np.empty_like(x), x)
    assert np.isposinf(result).all()


RANDOM = np.random.default_rng(0)


def of(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


LARGE = {
    "conv2d": (
        "aten::convolution_overrideable",
        (of(9, 6, 30, 31), of(8, 3, 3, 3), of(8), [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
    ),
    "transposed": (
        "aten::convolution_overrideable",
        (of(9, 6, 30, 31), of(6, 8, 3, 3), None, [2, 1], [1, 0], [1, 1], True, [1, 0], 1),
    ),
    "conv2d backward": (
        "aten::convolution_backward",
        (of(9, 8, 30, 30), of(9, 6, 30, 30), of(8, 6, 3, 3), [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3),
    ),
    "linear": ("aten::linear", (of(4, 300, 200), of(310, 200), of(310))),
    "linear backward": ("aten::linear_backward", (of(700, 200), of(700, 310), of(310, 200), [True] * 3)),
    "mm": ("aten::mm", (of(130, 400), of(400, 600))),
    "mm with one column over": ("aten::mm", (of(500, 400), of(400, 257))),
    "bmm": ("aten::bmm", (of(60, 64, 33), of(60, 33, 70))),
    "gelu": ("aten::gelu", (of(700, 700),)),
    "gelu backward": ("aten::gelu_backward", (of(700, 700), of(700, 700))),
}


@pytest.mark.parametrize("case", LARGE)
def test_large_kernels_give_the_same_bits_on_any_number_of_threads(case, monkeypatch):
    load()
    name, arguments = LARGE[case]
    together = KERNELS[name](*arguments)
    monkeypatch.setattr(parallel, "thread_count", lambda: 2)
    fewer = KERNELS[name](*arguments)
    monkeypatch.setattr(parallel, "thread_count", lambda: 1)
    alone = KERNELS[name](*arguments)
    results = [each if isinstance(each, tuple) else (each,) for each in (together, fewer, alone)]
    for three, two, one in zip(*results, strict=True):
        np.testing.assert_array_equal(three, two)
        np.testing.assert_array_equal(three, one)


@pytest.mark.parametrize("name", ["add_.List", "mul_.Scalar", "addcmul_.Scalar", "lerp_.Scalar", "sqrt_"])
def test_lists_of_large_tensors_are_updated_as_small_ones_are(name, monkeypatch):
    load()
    kernel = KERNELS[f"aten::_foreach_{name}"]
    lists = [[np.abs(of(500, 300)) for _ in range(4)] for _ in range(3)]
    arguments = {"add_.List": 2, "mul_.Scalar": 1, "addcmul_.Scalar": 3, "lerp_.Scalar": 2, "sqrt_": 1}[name]
    scalars = {"mul_.Scalar": (3.0,), "addcmul_.Scalar": (0.5,), "lerp_.Scalar": (0.25,)}.get(name, ())
    copies = [[each.copy() for each in column] for column in lists]
    kernel(*lists[:arguments], *scalars)
    monkeypatch.setattr(parallel, "thread_count", lambda: 1)
    kernel(*copies[:arguments], *scalars)
    for ours, theirs in zip(lists[0], copies[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_arrays_that_are_not_contiguous_are_computed_in_place():
    count = 2 * parallel._SMALL
    x = np.arange(2.0 * count, dtype=np.float32)
    for source, out in (
        (x[::2], np.zeros(2 * count, np.float32)[::2]),
        (x[:count], np.zeros(2 * count, np.float32)[::2]),
    ):
        result = parallel.by_rows(lambda out, y: np.negative(y, out=out), out, source)
        assert result is out
        assert np.array_equal(out, -source)


def test_arrays_of_other_shapes_are_broadcast():
    out = np.zeros((2, parallel._SMALL), np.float32)
    row = np.arange(parallel._SMALL, dtype=np.float32)
    assert np.array_equal(
        parallel.by_rows(lambda out, y: np.negative(y, out=out), out, row), np.broadcast_to(-row, out.shape)
    )


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(512, 256, 1024), (512, 1024, 256), (64, 576, 4096), (4096, 512, 64), (513, 500, 257)],
)
def test_a_product_is_cut_where_blas_copies_little_again(rows, inner, columns, monkeypatch):
    load()
    shapes = []
    product = np.matmul

    def seen(a, b, **out):
        shapes.append((a.shape[0], b.shape[1]))
        return product(a, b, **out)

    a, b = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(np, "matmul", seen)
        assert (KERNELS["aten::mm"](a, b) == inner).all()
        several = shapes.copy()
        patch.setattr(parallel, "thread_count", lambda: 1)
        shapes.clear()
        KERNELS["aten::mm"](a, b)
    assert shapes == [(rows, columns)]
    assert 2 <= len(several) <= 3 and sum(m * n for m, n in several) == rows * columns
    assert all((m >= 256 and n == columns) or (m == rows and n >= 128) for m, n in several)


@pytest.mark.parametrize(
    ("count", "least", "shares"), [(7, 1, [3, 3, 1]), (70, 32, [32, 32, 6]), (2, 1, [1, 1]), (0, 1, [])]
)
def test_shares_are_one_for_each_thread(count, least, shares, monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 3)
    found = parallel.shares(count, least)
    assert [part.stop - part.start for part in found] == shares
    assert [number for part in found for number in range(count)[part]] == list(range(count))
