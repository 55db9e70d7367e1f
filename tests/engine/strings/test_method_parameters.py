"""The parameters of the methods of a name, in all classes of a project."""

from __future__ import annotations

import pytest

from gpu2npu.python.project.project import Project


def of_methods(**files: str) -> set[tuple[str, ...]]:
    sources = {f"{name}.py": text.encode() for name, text in files.items()}
    return set(Project(frozenset(sources), sources.__getitem__).methods("f", "asker.py"))


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("def f(self):", ()),
        ("def f(this, x, device='cuda'):", ("x", "device")),
        ("def f(self, x, /, device=None, *, dtype):", ("x", "device")),
        ("def f(self, *args, device):", ()),
        ("async  def \\\n f (self, x=(1, ((2)))) -> None:", ("x",)),
        (
            "def f(\n    self,\n    x: Dict[str, int] = {'a': 1},  # the first :)\n    device: str = 'a)',\n):",
            ("x", "device"),
        ),
        ("@staticmethod\n    def f(x, device):", ("x", "device")),
        ("@classmethod\n    def f(cls, x):", ("x",)),
    ],
)
def test_those_by_position(header: str, names: tuple[str, ...]) -> None:
    assert of_methods(a=f"class A:\n    {header}\n        pass\n") == {names}


def test_of_all_classes_and_of_nothing_else() -> None:
    classes = "class A:\n    def f(self, a): ...\ndef g():\n    class B:\n        def f(self, b): ...\n"
    assert of_methods(a=classes, b="class C:\n    def f(self, c): ...\n") == {("a",), ("b",), ("c",)}
    text = "'''\nclass A:\n    def f(self, device): ...\n'''\n"
    others = f"def f(self, device): ...\n{text}class A:\n    def ff(self): ...\n"
    assert of_methods(a=others, b="class A(:\n    def f(self, device): ...\n") == set()
