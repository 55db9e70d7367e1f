"""Modules that no optimizer trains: which they are, and when their weights have changed."""

import torch
from torch import nn

from gpu2npu.verify.recording.untrained import Untrained


def test_a_module_is_untrained_while_no_optimizer_has_it_and_no_gradient_is_requested() -> None:
    untrained, net = Untrained(lambda tensor: tensor), nn.Linear(2, 2)
    assert not untrained.holds(net)
    with torch.no_grad():
        assert untrained.holds(net)
        untrained.trained_by(net.parameters())
        assert not untrained.holds(net)
    assert untrained.holds(nn.Linear(2, 2).requires_grad_(False))


def test_a_change_is_seen_even_where_it_makes_no_new_version() -> None:
    untrained, weight = Untrained(lambda tensor: tensor), torch.zeros(100, 3)
    assert not untrained.has_changed("weight", weight)
    assert not untrained.has_changed("weight", weight)
    weight.data[50:] += 1
    assert untrained.has_changed("weight", weight)
    assert not untrained.has_changed("weight", weight)
    assert not untrained.has_changed("number", torch.tensor(3)) and untrained.has_changed("number", torch.tensor(4))
