"""Matrix products and factorisations: what is refused, what fails, and batches that are spread over each other."""

from __future__ import annotations

from collections.abc import Callable

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
