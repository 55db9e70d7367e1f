"""Objects of a class of a library: the bindings and annotations that reach a use decide together."""

import ast

import pytest

from gpu2npu.python.meaning.inheritance import Wanted
from gpu2npu.python.meaning.instances import Instances
from gpu2npu.python.meaning.names import Names

HEAD = "import lib\nfrom lib import Pool\nclass Other:\n    size = 3\n    def move(self): ...\n"


def answer(names: Names, with_overrides: bool = False) -> bool | None:
    """Return whether the last object whose `size` is taken in a file is a Pool."""
    uses = [(node, scope) for node, scope in names.file.uses if isinstance(node, ast.Attribute) and node.attr == "size"]
    node, scope = max(uses, key=lambda use: names.file.bounds(use[0])[1])
    assert isinstance(node, ast.Attribute)
    return Instances(names).is_one(node.value, scope, Wanted("lib.Pool", "size", with_overrides))


@pytest.mark.parametrize(
    "text",
    [
        "def f(p: Pool): p.size",
        "def f(p: 'Pool | None' = None): p.size",
        "def f(*ps: Pool, p: Pool): p.size",
        "def f(p: Pool):\n    p += 1\n    p.size",
        "def f(p: Other):\n    p = Pool()\n    p.size",
        "def f(p: Pool):\n    p.size\n    for p in range(3): ...",
        "def f(p: Pool):\n    try: ...\n    except E as p: ...\n    p.size",
        "p = Other()\nfor p in [Pool()]: p.size",
        "p = Other()\nwith Pool() as p: p.size",
        "def f(p: Other): return [p.size for p in [Pool()]]",
        "def f(p: Other):\n    p = Pool()\n    return [p.size for x in y]",
        "def f():\n    p: Pool\n    for p in make(): p.size",
        "POOL = None\nif c:\n    POOL = Pool()\ndef f(): POOL.size",
        "def make() -> Pool: ...\nmake().size",
        "class A(Pool):\n    def f(self): self.size",
        "class A(Pool):\n    def size(self): ...\nA().size",
        "class A(Pool, Other):\n    def f(self): self.size",
    ],
)
def test_it_is_one(parse, text: str) -> None:
    assert answer(parse(HEAD + text)) is True


@pytest.mark.parametrize(
    "text",
    [
        "def f(*ps: Pool): ps.size",
        "def f(**ps: Pool): ps.size",
        "def f(p: Other): p.size",
        "def f(p: Pool):\n    for p in [Other()]: p.size",
        "def f(p: Pool):\n    with Other() as p: p.size",
        "def f(p: Pool):\n    p = Other()\n    return [p.size for x in y]",
        "def f(p: list[Pool]): p.size",
        "class A(Pool):\n    size = 4\n    def f(self): self.size",
        "class A(Pool):\n    size = 4\nclass B(A): ...\nB().size",
        "class A(Pool):\n    def __init__(self): self.size = 4",
    ],
)
def test_it_is_not_one(parse, text: str) -> None:
    assert answer(parse(HEAD + text)) is False


@pytest.mark.parametrize(
    "text",
    [
        "def f(p: Pool | Other): p.size",
        "def make() -> 'Pool | Other': ...\nmake().size",
        "def f(p: Pool):\n    for p in range(3): p.size",
        "def f(p: Pool):\n    for p, q in x: p.size",
        "def f(p: Pool):\n    for x in y:\n        p.size\n        p = Other()",
        "def f(p: Pool):\n    with make() as p: p.size",
        "def f(p: Pool):\n    try: ...\n    except E as p: p.size",
        "def f(p: Pool):\n    if (p := make()): p.size",
        "def f(p: Pool):\n    import p\n    p.size",
        "def f(p: Pool):\n    if c: p = Other()\n    p.size",
        "def f(p: Pool): return [p.size for p in make()]",
        "def f(p: Pool):\n    p = make()\n    return [p.size for x in y]",
        "def f():\n    p = Other()\n    def g(): p.size\n    g()\n    p = Pool()",
        "for p in [Other(), Pool()]: p.size",
        "p = Pool()\np = make()\np.size",
        "class A(Other, Pool):\n    def f(self): self.size",
        "class A(Pool):\n    @staticmethod\n    def f(self): self.size",
        "class A(Pool):\n    @classmethod\n    def f(cls): cls.size",
        "class A(Pool): ...\nA.size",
    ],
)
def test_it_is_not_known(parse, text: str) -> None:
    assert answer(parse(HEAD + text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "class A(Pool):\n    size = 4\nA().size",
        "class A(Pool):\n    @classmethod\n    def f(cls): cls.size",
    ],
)
def test_overrides_and_classes_count_where_they_are_edited_too(parse, text: str) -> None:
    assert answer(parse(HEAD + text), with_overrides=True) is True
