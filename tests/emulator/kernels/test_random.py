"""Random kernels have no values to compare: their distributions, dtypes, bounds and reproducibility."""

import ml_dtypes
import numpy as np
import pytest

SIZE = 20000
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]


@pytest.fixture
def draw(kernels_of):
    def run(name, *args, seed=0, **kwargs):
        return kernels_of[f"aten::{name}"](*args, generator=np.random.default_rng(seed), **kwargs)

    return run


@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform_stays_below_its_bound(draw, dtype):
    values = draw("uniform_", np.empty(SIZE, dtype), 2.0, 4.0)
    assert values.dtype == dtype
    wide = values.astype(np.float64)
    assert wide.min() >= 2
    assert wide.max() < 4
    assert abs(wide.mean() - 3) < 0.05


def test_uniform_takes_its_bounds_by_name(draw):
    assert draw("uniform_", np.empty(100, np.float32), **{"from": -1.0, "to": 0.0}).max() < 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal(draw, dtype):
    values = draw("normal_", np.empty((100, 200), dtype), 1.0, 2.0)
    assert values.dtype == dtype
    assert values.shape == (100, 200)
    assert abs(values.astype(np.float64).mean() - 1) < 0.1
    assert abs(values.astype(np.float64).std() - 2) < 0.1


def test_normal_of_tensors(draw):
    mean, std = np.full((SIZE, 1), 3, np.float32), np.array([1, 5], np.float32)
    values = draw("normal.Tensor_Tensor", mean, std)
    assert values.shape == (SIZE, 2)
    assert np.allclose(values.std(axis=0), std, rtol=0.05)
    assert draw("normal.Tensor_float", mean, 0.0).tolist() == mean.tolist()
    assert draw("normal.float_Tensor", 2.0, std).shape == (2,)


def test_negative_deviation_is_refused(draw):
    with pytest.raises(RuntimeError, match="std >= 0"):
        draw("normal_", np.empty(3, np.float32), 0.0, -1.0)


def test_random_integers(draw):
    values = draw("random_.from", np.empty(SIZE, np.int64), -2, 3)
    assert set(values.tolist()) == {-2, -1, 0, 1, 2}
    assert set(draw("random_.to", np.empty(SIZE, np.uint8), 3).tolist()) == {0, 1, 2}
    assert set(draw("random_", np.empty(SIZE, bool)).tolist()) == {True, False}
    assert draw("random_", np.empty(SIZE, np.int8)).min() == 0
    assert draw("random_", np.empty(SIZE, np.float32)).max() <= 2**24
    with pytest.raises(RuntimeError, match="less than"):
        draw("random_.from", np.empty(1, np.int64), 3, 3)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_bernoulli(draw, p):
    for name, args in (
        ("bernoulli_.float", (np.empty(SIZE, np.float32), p)),
        ("bernoulli_.Tensor", (np.empty(SIZE, np.float32), np.full(SIZE, p, np.float32))),
        ("bernoulli", (np.full(SIZE, p, np.float32),)),
    ):
        values = draw(name, *args)
        assert set(values.tolist()) <= {0.0, 1.0}
        assert abs(values.mean() - p) < 0.02


def test_bernoulli_refuses_what_is_no_probability(draw):
    with pytest.raises(RuntimeError, match="p_in"):
        draw("bernoulli", np.array([0.5, np.nan], np.float32))


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_dropout_keeps_the_mean_and_its_mask(draw, kernels_of, p, dtype):
    x = np.ones((100, 200), dtype)
    out, mask = draw("native_dropout", x, p, True)
    assert out.dtype == dtype
    assert mask.dtype == bool
    assert abs(mask.mean() - (1 - p)) < 0.02
    scale = 0.0 if p == 1 else 1 / (1 - p)
    assert np.allclose(out.astype(np.float32), mask * scale, rtol=0.01)
    assert kernels_of["aten::native_dropout_backward"](x, mask, scale).tolist() == out.tolist()


def test_dropout_in_evaluation_copies(draw):
    x = np.arange(4, dtype=np.float32)
    out, mask = draw("native_dropout", x, 0.5, False)
    assert out.tolist() == x.tolist()
    assert mask.all()
    assert not np.shares_memory(out, x)


def test_multinomial_draws_by_weight(draw):
    weights = np.array([[0, 1, 3], [1, 1, 0]], np.float32)
    values = draw("multinomial", weights, SIZE, True)
    assert values.shape == (2, SIZE)
    assert np.allclose(np.bincount(values[0], minlength=3) / SIZE, [0, 0.25, 0.75], atol=0.02)
    assert sorted(draw("multinomial", np.ones(5, np.float32), 5).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [np.nan, 1.0], [0.0, 0.0]])
def test_multinomial_refuses_bad_weights(draw, weights):
    with pytest.raises(RuntimeError):
        draw("multinomial", np.array(weights, np.float32), 1)


def test_permutations(draw):
    values = draw("randperm", 100)
    assert values.dtype == np.int64
    assert sorted(values.tolist()) == list(range(100))


def test_other_distributions(draw):
    empty = np.empty(SIZE, np.float32)
    assert abs(draw("exponential_", empty, 2.0).mean() - 0.5) < 0.02
    assert draw("exponential_", empty).min() > 0
    logarithms = np.log(draw("log_normal_", empty, 0.5, 3.0))
    assert abs(logarithms.mean() - 0.5) < 0.1
    assert abs(logarithms.std() - 3) < 0.1
    cauchy = draw("cauchy_", empty, 1.0, 3.0)
    assert abs(np.median(cauchy) - 1) < 0.2
    assert abs(np.median(np.abs(cauchy - 1)) - 3) < 0.2  # half of it is within sigma of the median
    assert abs(draw("geometric_", empty, 0.5).mean() - 2) < 0.1


def test_the_same_generator_state_gives_the_same_numbers(draw):
    for name in ("uniform_", "normal_", "exponential_", "random_"):
        first, again, other = (draw(name, np.empty(50, np.float32), seed=seed).tolist() for seed in (1, 1, 2))
        assert first == again
        assert first != other


def test_the_signs_and_slopes_of_a_leaky_relu_that_are_drawn(draw):
    x = np.linspace(-2, 2, SIZE).astype(np.float32)
    noise = np.empty_like(x)
    y = draw("rrelu_with_noise", x, noise, 0.25, 0.5, True)
    assert np.array_equal(y[x > 0], x[x > 0])
    assert (noise[x > 0] == 1).all()
    slopes = noise[x <= 0]
    assert np.allclose(y[x <= 0], x[x <= 0] * slopes)
    assert 0.25 <= slopes.min() < 0.26 < 0.49 < slopes.max() <= 0.5
    assert abs(slopes.mean() - 0.375) < 0.01


def test_slopes_are_the_middle_where_none_are_drawn(draw):
    x = np.array([-2.0, 0.0, 3.0], np.float32)
    assert draw("rrelu_with_noise", x, np.zeros_like(x), 0.25, 0.75, False).tolist() == [-1.0, 0.0, 3.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_and_ones_of_a_probability_that_is_given(dtype, draw):
    like = np.empty(SIZE, dtype)
    for share in (0.0, 0.2, 1.0):
        ones = draw("bernoulli.p", like, share).astype(np.float64)
        assert set(np.unique(ones)) <= {0.0, 1.0}
        assert abs(ones.mean() - share) < 0.01
    shares = np.repeat([0.0, 0.3, 1.0], SIZE // 3).astype(np.float32)
    of_each = draw("bernoulli.Tensor", np.empty(shares.shape, dtype), shares).astype(np.float64).reshape(3, -1)
    assert np.allclose(of_each.mean(axis=1), [0, 0.3, 1], atol=0.02)
    assert draw("bernoulli.Tensor", like, shares[:1]).dtype == dtype


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_what_is_not_a_probability_is_refused(p, draw):
    with pytest.raises(RuntimeError, match=r"expects p to be in \[0, 1\]"):
        draw("bernoulli.p", np.empty(3, np.float32), p)


@pytest.mark.parametrize("name", ["randperm", "randperm.generator"])
def test_permutations_hold_every_number_once(name, draw):
    order = draw(name, 100)
    assert order.dtype == np.int64
    assert sorted(order) == list(range(100)) != list(order)
    assert draw(name, 5, dtype=np.dtype(np.int32)).dtype == np.int32


def test_uniform_is_between_0_and_1_unless_bounds_are_given(draw):
    for dtype in DTYPES:
        values = draw("uniform_", np.empty(SIZE, dtype)).astype(np.float64)
        assert 0 <= values.min() < 0.01 < 0.99 < values.max() < 1


def test_doubles_are_drawn_with_all_of_their_digits(draw):
    values = draw("uniform_", np.empty(SIZE, np.float64))
    assert (values * 2.0**24 % 1 != 0).mean() > 0.99


def test_numbers_from_0_to_other_bounds(draw):
    for high in (2.0, 0.25):
        values = draw("uniform_", np.empty(SIZE, np.float32), 0.0, high)
        assert 0 <= values.min() < 0.01 * high
        assert 0.99 * high < values.max() < high


def test_a_permutation_of_nothing(draw):
    assert draw("randperm", 0).shape == (0,)
    with pytest.raises(RuntimeError, match="non-negative"):
        draw("randperm", -1)
