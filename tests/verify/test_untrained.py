"""Modules that no optimizer trains: which they are, and when their weights have changed."""

import torch
from torch import nn

from gpu2npu.verify.recording.untrained import Averages, Untrained


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


def test_copies_of_all_weights_are_found_where_a_program_keeps_them() -> None:
    net = nn.Sequential(nn.Linear(40, 3), nn.BatchNorm1d(3))
    weights = list(net.parameters())
    shadow = {name: each.detach().clone() for name, each in net.state_dict().items()}
    listed = [each.detach().clone() for each in weights]
    moments = [torch.zeros_like(each) for each in weights]
    here, gradients = net.state_dict(), [torch.rand_like(each) for each in weights]
    averages = Averages(lambda tensor: tensor)
    averages.search(weights)
    found = dict(averages.tensors())
    held = {id(each) for each in found.values()}
    assert held == {id(each) for each in (*shadow.values(), *listed)} and moments and here and gradients
    assert {name.partition(" of ")[2] for name in found} == {*shadow, *map(str, range(len(listed)))}
    shadow["0.weight"] = torch.ones(3, 40)
    assert any(each is shadow["0.weight"] for _, each in averages.tensors())
    del shadow, found
    assert len(list(averages.tensors())) == len(listed)
