import ast

import pytest

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import OTHER, TENSOR, UNKNOWN, ValueTypes
from gpu2npu.python.tree.syntax import last_name

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport numpy as np\n"


MODULE = "torch.nn.Module"


def owners(names: Names) -> set[str]:
    """The types in which the method `ask` of the receiver in `....ask()` is looked up."""
    types = ValueTypes(names)
    [(call, scope)] = [
        (node, scope) for node, scope in names.file.uses if isinstance(node, ast.Call) and last_name(node.func) == "ask"
    ]
    return types.owners(types.of(call.func.value, scope), "ask")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.zeros(3)\nx.ask()",
        "torch.zeros(3).ask()",
        "x = torch.zeros(3).view(-1).float() * 2\nx.ask()",
        "def f(x: torch.Tensor):\n    x.ask()",
        "def f(x: 'torch.Tensor | None'):\n    x.ask()",
        "from typing import Optional\nfrom torch import Tensor\ndef f(x: Optional[Tensor]):\n    x.ask()",
        "def g() -> torch.Tensor: ...\ng().ask()",
        "def g(y):\n    return torch.cat(y)\nx = g(1)\nx.ask()",
        "values, index = torch.zeros(3).topk(2)\nvalues.ask()",
        "for part in torch.zeros(4).chunk(2):\n    part.ask()",
        "x = torch.zeros(3)\nx[0].ask()",
        "x = torch.zeros(3)\n(x > 0).ask()",
        "x = np.zeros(3)\nx = torch.from_numpy(x)\nx.ask()",
        "def f(x):\n    x = F.relu(x)\n    x.ask()",
        "def f(x):\n    x = F.relu(x)\n    if x:\n        x = x.view(-1)\n    x.ask()",
        "x = torch.max(y, 1).values\nx.ask()",
        "class N(nn.Module):\n    def __init__(self):\n        self.w = nn.Parameter(torch.zeros(3))\n"
        "    def forward(self):\n        self.w.ask()",
        "class N(nn.Module):\n    def __init__(self):\n        self.l = nn.Linear(1, 1)\n"
        "    def forward(self, x):\n        self.l(x).ask()",
        "class N(nn.Module):\n    def forward(self, x):\n        return F.relu(x)\nn = N()\nn(1).ask()",
        "if (x := torch.zeros(1)) is not None:\n    x.ask()",
        "x = torch.zeros(1)\nx += 1\nx.ask()",
        "x = torch.zeros(1)\nfor y in z:\n    x = x.to(y)\n    x.ask()",
        "from typing import Optional\nMaybe = Optional[torch.Tensor]\ndef f(x: Maybe):\n    x.ask()",
        "x: torch.Tensor = make()\nx.ask()",
        "class A:\n    @staticmethod\n    def make(n):\n        return torch.zeros(n)\nA.make(3).ask()",
        "class A:\n    def get(self) -> torch.Tensor: ...\nclass B(A): ...\nb = B()\nb.get().ask()",
    ],
)
def test_a_tensor(parse, text: str) -> None:
    assert owners(parse(HEAD + text)) == {TENSOR}


@pytest.mark.parametrize(
    "text",
    [
        "x = []\nx.ask()",
        "x = np.zeros(3)\nx.ask()",
        "x = torch.zeros(3).tolist()\nx.ask()",
        "x = torch.zeros(3).shape\nx.ask()",
        "def f(x: list):\n    x.ask()",
        "class K:\n    pass\nK().ask()",
        "class N(nn.Module):\n    def ask(self): ...\nN().ask()",
        "class N(nn.Module):\n    def f(self):\n        self.ask()\n    def ask(self): ...",
    ],
)
def test_nothing_of_torchs(parse, text: str) -> None:
    assert owners(parse(HEAD + text)) == {OTHER}


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    x.ask()",
        "x.ask()",
        "x = torch.load('f')\nx.ask()",
        "x = mine()\nx.ask()",
        "def f(x):\n    if x:\n        x = torch.zeros(1)\n    x.ask()",
    ],
)
def test_what_is_not_evident_is_not_known(parse, text: str) -> None:
    assert UNKNOWN in owners(parse(HEAD + text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("n = nn.Linear(1, 1).to('cpu')\nn.ask()", "torch.nn.Linear"),
        ("class N(nn.Module): ...\nN().ask()", MODULE),
        ("class N(nn.Module): ...\nclass M(N): ...\nM().ask()", MODULE),
        ("class N(nn.Module):\n    def f(self):\n        self.ask()", MODULE),
    ],
)
def test_modules(parse, text: str, kind: str) -> None:
    assert owners(parse(HEAD + text)) == {kind}


def test_classes_and_functions_of_other_files(parse) -> None:
    blocks = HEAD + "class Block(nn.Module):\n    def forward(self, x):\n        return self.l(x) + torch.ones(1)\n"
    text = "from blocks import Block\nb = Block()\ny = b(1)\n"
    assert owners(parse(text + "b.ask()", blocks=blocks)) == {MODULE}
    assert owners(parse(text + "y.ask()", blocks=blocks)) == {TENSOR}


def test_circles_end(parse) -> None:
    assert UNKNOWN in owners(parse(HEAD + "def f():\n    return g()\ndef g():\n    return f()\nf().ask()")) | {UNKNOWN}
    assert owners(parse(HEAD + "a = b\nb = a\na.ask()")) <= {UNKNOWN, OTHER}
