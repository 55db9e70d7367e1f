"""Matrix products and factorisations: what is refused, what fails, and batches that are spread over each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@pytest.mark.parametrize("multiply", [torch.mm, torch.matmul, torch.nn.functional.linear])
@pytest.mark.parametrize(("left", "right"), [("float16", "bfloat16"), ("bfloat16", "float32"), ("float32", "float16")])
def test_operands_of_unlike_dtypes_are_named_in_their_order(multiply: Product, left: str, right: str) -> None:
    a, b = (torch.ones(2, 2, dtype=getattr(torch, name), device="npu") for name in (left, right))
    with pytest.raises(RuntimeError, match=f"to have the same dtype, but got: {left} != {right}"):
        multiply(a, b)


def test_the_first_minor_that_is_not_positive_is_named() -> None:
    torch.manual_seed(0)
    matrices = torch.eye(4).repeat(6, 1, 1)
    for number in range(4):
        matrices[number, number, number] = -1
    matrices[4, 1, 1] = matrices[4, 3, 3] = 0
    matrices = matrices.reshape(2, 3, 4, 4)
    for upper in (False, True):
        expected, actual = (torch.linalg.cholesky_ex(matrices.to(device), upper=upper) for device in ("cpu", "npu"))
        assert actual.info.tolist() == expected.info.tolist() == [[1, 2, 3], [4, 2, 0]]
        torch.testing.assert_close(actual.L[1, 2].cpu(), expected.L[1, 2])


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize(("left", "right"), [((3, 1), (1, 2)), ((), ()), ((3, 1), (3, 2)), ((1,), (3,)), ((3,), (1,))])
@pytest.mark.parametrize("rows", [2, 3, 5])
def test_least_squares_of_batches_that_are_spread_over_each_other(
    driver: str, left: tuple[int, ...], right: tuple[int, ...], rows: int
) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(*left, rows, 3), torch.randn(*right, rows, 2)
    expected = torch.linalg.lstsq(a, b, driver=driver)
    actual = torch.linalg.lstsq(a.to("npu"), b.to("npu"), driver=driver)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)], ids=str)
def test_least_squares_of_vectors(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(*shape, 4, 3), torch.randn(*shape, 4)
    expected, actual = (torch.linalg.lstsq(a.to(device), b.to(device), driver="gelsd") for device in ("cpu", "npu"))
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_ranks_of_systems_with_columns_of_nearly_nothing(driver: str) -> None:
    """A singular value counts from the machine's precision times the longer side on; some of a batch lack one."""
    a = torch.zeros(3, 64, 2)
    a[:, 0, 0] = 1
    a[:, 1, 1] = torch.tensor([1, 100, 20]) * torch.finfo(torch.float32).eps
    a[0, 1, 1] = 1
    b = torch.ones(3, 64, 1)
    for matrices in (a[:2], a[::2], a[2:]) if driver != "gels" else (a[:1],):
        ours, theirs = (
            torch.linalg.lstsq(matrices.to(device), b[: len(matrices)].to(device), driver=driver)
            for device in ("npu", "cpu")
        )
        assert ours.rank.tolist() == theirs.rank.tolist()
        assert ours.residuals.shape == theirs.residuals.shape


@pytest.mark.parametrize("call", ["inv_ex", "solve_ex", "lu_factor_ex", "ldl_factor_ex"])
def test_singular_matrices_are_numbered_and_refused_only_where_errors_are_checked(call: str) -> None:
    matrices = torch.tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]]])
    if call == "ldl_factor_ex":
        matrices[0] = 0
    operands = (torch.ones(2, 2, 1),) if call == "solve_ex" else ()
    for check_errors in (False, True):
        outcomes: list[list[int] | type[Exception]] = []
        for device in ("cpu", "npu"):
            given = [each.to(device) for each in (matrices, *operands)]
            assert getattr(torch.linalg, call)(
                *(each[1:] for each in given), check_errors=check_errors
            ).info.tolist() == [0]
            try:
                outcomes.append(getattr(torch.linalg, call)(*given, check_errors=check_errors).info.tolist())
            except RuntimeError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1], (check_errors, outcomes)


@pytest.mark.parametrize(("left", "right"), [((), (2,)), ((2,), ()), ((3, 1), (1, 2)), ((2,), (3, 2)), ((3, 2), (2,))])
def test_solutions_of_batches_that_are_spread_over_each_other(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(*left, 3, 3), torch.randn(*right, 3, 2)
    for device in ("cpu", "npu"):
        on = b.to(device)
        solved = torch.linalg.solve(a.to(device), on)
        assert torch.allclose(a.to(device) @ solved, on, atol=1e-4)
        solved = torch.linalg.lu_solve(*torch.linalg.lu_factor(a.to(device)), on)
        assert torch.allclose(a.to(device) @ solved, on, atol=1e-4)


@pytest.mark.parametrize("batch", [(), (2,), (2, 4)], ids=str)
def test_solutions_of_vectors(batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(*batch, 3, 3), torch.randn(*batch, 3)
    expected, actual = (torch.linalg.solve(a.to(device), b.to(device)) for device in ("cpu", "npu"))
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-3, atol=1e-4)


def test_inner_products_conjugate_the_first_vector(check: Callable[..., None]) -> None:
    a, b = torch.tensor([1 + 2j, -1j, 3]), torch.tensor([2 - 1j, 1 + 1j, 0.5j])
    check(torch.ops.aten.vdot.default, a, b)
    check(torch.ops.aten.vdot.default, a.real, b.imag)
    check(torch.ops.aten.dot.default, a, b)


def test_batches_of_unlike_lengths_are_named(kernels_of: dict[str, Callable[..., object]]) -> None:
    with pytest.raises(RuntimeError, match="batch sizes 2 and 5 differ"):
        kernels_of["aten::bmm"](np.ones((2, 3, 4)), np.ones((5, 4, 6)))


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("scale", [0.01, 1, 100])
def test_what_counts_in_a_system_is_relative_to_its_largest_part(driver: str, scale: float) -> None:
    a, b = torch.diag(torch.tensor([1.0, 0.5, 0.05])) * scale, torch.ones(3, 1)
    found = torch.linalg.lstsq(a.to("npu"), b.to("npu"), rcond=0.1, driver=driver)
    assert found.rank == 2
    torch.testing.assert_close(found.solution.cpu() * scale, torch.tensor([[1.0], [2.0], [0.0]]))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize(("left", "right"), [((), (2,)), ((2,), ()), ((3, 1), (1, 2)), ((3, 2), (2,))])
def test_triangles_of_batches_that_are_spread_over_each_other(
    left: tuple[int, ...], right: tuple[int, ...], upper: bool
) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(*left, 3, 3) + 3 * torch.eye(3), torch.randn(*right, 3, 2)
    expected, actual = (torch.linalg.solve_triangular(a.to(d), b.to(d), upper=upper) for d in ("cpu", "npu"))
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("mask", [[True, False, False], [False, True, False], [False, False, True], [True, True, True]])
def test_gradients_of_a_linear_layer_that_are_wanted(
    mask: list[bool], kernels_of: dict[str, Callable[..., tuple[np.ndarray | None, ...]]]
) -> None:
    x, grad, weight = (np.random.default_rng(0).normal(size=size) for size in ((2, 5, 3), (2, 5, 4), (4, 3)))
    found = kernels_of["aten::linear_backward"](x, grad, weight, mask)
    expected = (grad @ weight, np.einsum("bnk,bnj->kj", grad, x), grad.sum(axis=(0, 1)))
    for wanted, ours, theirs in zip(mask, found, expected, strict=True):
        assert (ours is not None) is wanted
        if ours is not None:
            np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (0, 3)], ids=str)
def test_a_linear_layer_of_one_row(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(shape), torch.randn(3)
    results = []
    for device in ("cpu", "npu"):
        given = [each.detach().to(device).requires_grad_() for each in (x, weight)]
        y = torch.nn.functional.linear(*given)
        results.append([each.cpu() for each in (y, *torch.autograd.grad(y.square().sum(), given))])
    torch.testing.assert_close(results[1], results[0])
