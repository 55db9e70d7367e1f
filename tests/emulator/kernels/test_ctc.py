import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("beyond_the_table")  # which refuses samples without labels


@pytest.mark.parametrize("zero_infinity", [True, False])
def test_an_impossible_alignment_among_possible_ones(zero_infinity: bool) -> None:
    scores = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, 2, 0, 0, 0, 0], [1, 1, 2, 2, 3, 3]])  # six labels do not fit into five steps
    results = []
    for device in ("cpu", "npu"):
        x = scores.to(device, copy=True).requires_grad_()
        lengths = torch.tensor([5, 5]), torch.tensor([2, 6])
        loss = F.ctc_loss(
            x.log_softmax(-1), targets.to(device), *lengths, zero_infinity=zero_infinity, reduction="none"
        )
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        results.append((loss.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(results[1], results[0], equal_nan=True)
    assert results[1][1][:, 1].abs().sum().item() == 0 or not zero_infinity


TARGETS = {
    "labels that repeat": ([[1, 1, 2, 2], [3, 3, 3, 1]], [7, 7], [4, 4]),
    "of unlike lengths": ([[1, 2, 3, 0], [2, 0, 0, 0]], [7, 4], [3, 1]),
    "without labels": ([[1, 2, 1, 0], [0, 0, 0, 0]], [7, 3], [3, 0]),
    "no labels at all": ([[0], [0]], [7, 5], [0, 0]),
    "one path alone": ([[1, 1, 2, 3], [3, 1, 2, 1]], [5, 4], [4, 4]),
    "no steps": ([[1, 2], [0, 0]], [7, 0], [2, 0]),
}


@pytest.mark.parametrize("case", TARGETS)
@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize("in_a_row", [True, False])
def test_losses_and_gradients_are_the_cpus(case: str, blank: int, in_a_row: bool) -> None:
    labels, steps, lengths = TARGETS[case]
    targets = torch.tensor(labels)
    if blank:
        targets = (targets + 3) % 4
    if in_a_row:
        targets = torch.cat([row[:length] for row, length in zip(targets, lengths, strict=True)])
    scores = torch.randn(7, 2, 4, generator=torch.Generator().manual_seed(0))
    results = []
    for device in ("cpu", "npu"):
        x = scores.to(device, copy=True).requires_grad_()
        loss = F.ctc_loss(
            x.log_softmax(-1), targets.to(device), torch.tensor(steps), torch.tensor(lengths), blank, "none"
        )
        (gradient,) = torch.autograd.grad((loss * torch.tensor([1.0, 3.0], device=device)).sum(), x)
        results.append((loss.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("lengths", [(6, 3), (6, 0), (1, 1)])
def test_a_sequence_by_itself(lengths: tuple[int, int]) -> None:
    scores = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    targets = torch.tensor([1, 2, 2])[: lengths[1]]
    steps, labels = (torch.tensor(length) for length in lengths)
    losses = [
        F.ctc_loss(scores.to(device), targets.to(device), steps, labels, reduction="sum") for device in ("cpu", "npu")
    ]
    torch.testing.assert_close(losses[1].cpu(), losses[0])


def test_no_sequences_are_refused() -> None:
    none = torch.empty(0, dtype=torch.int64)
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match="log_probs tensor must not be empty"):
            F.ctc_loss(torch.empty(5, 0, 4, device=device), none.to(device), none, none)


def test_paths_have_a_place_for_each_label_and_the_blanks_between():
    scores, labels = torch.randn(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2, 3], [2, 0, 0]])
    for lengths in ([3, 1], [2, 1]):
        sizes = torch.tensor([5, 4]), torch.tensor(lengths)
        expected, actual = (
            torch.ops.aten._ctc_loss.Tensor(scores.to(d), labels.to(d), *(each.to(d) for each in sizes))
            for d in ("cpu", "npu")
        )
        torch.testing.assert_close(actual[0].cpu(), expected[0])
        assert actual[1].shape == expected[1].shape
