import pytest
import torch

from gpu2npu.emulator.device.dispatch import signature


@pytest.mark.parametrize("operator", ["aten::add", "npu::npu_rms_norm"])
def test_schemas_are_read_past_what_a_tool_put_in_the_operators_place(monkeypatch, operator):
    """mindstudio-probe wraps `torch.ops.npu.*` in functions before the first operator runs on the NPU."""
    namespace, name = operator.split("::")
    library = getattr(torch.ops, namespace)
    packet = getattr(library, name)
    which = packet.overloads()[0]
    expected = getattr(packet, which)
    forms = signature.mutable_overloads(expected)
    monkeypatch.setattr(library, name, lambda *args, **kwargs: packet(*args, **kwargs))
    found = signature.overload(f"{operator}.{which}")
    assert (found.name(), str(found._schema)) == (expected.name(), str(expected._schema))
    assert [form.name() for form in signature.mutable_overloads(found)] == [form.name() for form in forms]
    assert signature.read(found).fallback is None
    assert [signature.functional_name(form) for form in forms] == [expected.name()] * len(forms)


def test_unknown_operators_are_named():
    with pytest.raises(ValueError, match=r"has no operator aten::no_such\.Tensor"):
        signature.overload("aten::no_such.Tensor")
