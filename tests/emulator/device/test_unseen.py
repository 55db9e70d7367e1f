import pytest
import torch

# Of those that mindstudio-probe's debugger replaces, what the device might call itself.
METHODS = ("fill_", "zero_", "copy_", "item", "numpy", "to", "view", "reshape", "float", "clone", "mul", "sum")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tool_that_replaces_methods_of_tensors_sees_only_what_the_program_calls(monkeypatch, dtype):
    """msprobe dumps every call of a method: the emulator's own would be among the program's."""
    layer = torch.nn.Linear(4, 3).npu()
    cpu, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]).npu()
    calls = []
    for name in METHODS:
        method = getattr(torch.Tensor, name)

        def watched(*args, _name=name, _method=method, **kwargs):
            calls.append(_name)
            return _method(*args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, watched)
    inputs = cpu.to("npu")
    with torch.autocast("npu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(layer(inputs), labels)
    loss.backward()
    torch.zeros(3, device="npu", dtype=dtype)
    torch.full((3,), 2, device="npu", dtype=dtype)[1:] = 3
    bool(loss > 0)
    loss.cpu()
    assert calls == ["to"]
    assert torch.isfinite(loss).item()
    assert calls == ["to", "item"]
