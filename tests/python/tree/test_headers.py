"""The parameters of methods are read from their headers alone."""

from __future__ import annotations

import pytest

from gpu2npu.python.tree.headers import method_headers, positional


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("def f(self):", ()),
        ("def f(self, x, device='cuda'):", ("x", "device")),
        ("def f(self, x, /, device=None, *, dtype):", ("x", "device")),
        ("def f(self, *args, device):", ()),
        ("def f(self, x=(1, 2), y=torch.zeros(f(3)), device='cuda') -> None:", ("x", "y", "device")),
        ("def f(\n    self,\n    x: Dict[str, int] = {'a': 1},  # the first\n    device: str = 'a)',\n):", ()),
        ("def f(self, x='a,b', device: Optional[str] = None):", ("x", "device")),
    ],
)
def test_positional_parameters(header: str, names: tuple[str, ...]) -> None:
    source = f"class A:\n    {header}\n        pass\n".encode()
    assert [(name, positional(text)) for name, text in method_headers(source)] == [("f", names)]


def test_functions_without_self_are_no_methods() -> None:
    assert list(method_headers(b"def f(x, device): pass\nundef g(self): pass\ndef h(selfish, device): pass\n")) == []
