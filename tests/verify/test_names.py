"""The names of modules: what only hands calls on does not show in them."""

from collections import OrderedDict

import torch
from torch import nn

from gpu2npu.verify.recording.names import RecordedNames


class OptimizedModule(nn.Module):
    """The callable that torch.compile returns, without the compiler."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._orig_mod = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self._orig_mod(x))


def test_a_module_that_is_compiled_or_on_several_cards_keeps_its_name() -> None:
    on_one_card = lambda net: nn.Sequential(OrderedDict(module=net))  # noqa: E731  # what DataParallel may become
    for wrap in (lambda net: net, on_one_card, OptimizedModule, lambda net: OptimizedModule(nn.DataParallel(net))):
        names, net = RecordedNames(), nn.Sequential(nn.Linear(2, 2))
        outermost = wrap(net)
        assert [name for name, _ in names.learn(outermost)] == ["Sequential.0.weight", "Sequential.0.bias"]
        assert names.of(outermost) == ("Sequential" if outermost is net else "")
        assert (names.of(net), names.of(net[0])) == ("Sequential", "Sequential.0")
        assert [name for name, _ in names.state(outermost, is_called=True)] == [
            "Sequential.0.weight",
            "Sequential.0.bias",
        ]
        assert names.learn(outermost) == []
