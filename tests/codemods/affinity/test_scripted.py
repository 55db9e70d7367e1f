"""Code that TorchScript compiles, or torch.func transforms, calls no module of fused operators."""

import pytest

from gpu2npu.codemods import CodemodChoice, plan_codemods
from gpu2npu.engine import ProjectContext

MODEL = """\
import torch
import torch.nn.functional as F

def gate(x):
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b

class Block(torch.nn.Module):
    def forward(self, x):
        return gate(x)

class Net(torch.nn.Module):
    def __init__(self, block=Block):
        super().__init__()
        self.block = block()

    def forward(self, x):
        return self.block(x)

class Other(torch.nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return F.silu(a) * b

MODELS = {"net": Net}

def build(name):
    return MODELS[name]()
"""
# The lines of MODEL in which `gate` and `Other` compute what is one operator.
GATE, OTHER = 6, 23


def rewritten(main: str, **others: str) -> set[int]:
    """The lines of model.py that are rewritten beside a program and other files."""
    sources = {f"{name}.py": text.encode() for name, text in others.items()}
    sources |= {"main.py": f"import torch\n{main}".encode(), "model.py": MODEL.encode()}
    choice = CodemodChoice(skipped=frozenset({"data_parallel"}), options={"affinity": ("swiglu",)})
    plan = plan_codemods(sources, ProjectContext(version="2.7.1"), choice)
    assert not plan.failures
    edits = plan.rewrites["model.py"].edits if "model.py" in plan.rewrites else ()
    places = [edit.place[0] for edit in edits if "swiglu(" in str(edit.text)]
    return {MODEL.count("\n", 0, place) + 1 for place in places}


@pytest.mark.parametrize(
    "main",
    [
        "from model import Net\ntorch.jit.script(Net())",
        "from model import Net as M\nmodel = M()\nmodel = torch.jit.script(model)",
        "import model\ndef main():\n    m = model.Net()\n    m.eval()\n    return torch.jit.script(m)",
        "from torch.jit import script\nfrom model import gate\nfast = script(gate)",
        "from model import build\ndef main(name):\n    return torch.jit.script(build(name))\nmain('net')",
        "from model import Net\ndef export(m):\n    torch.jit.script(m).save('a')\ndef main():\n    export(Net())",
        "from model import gate\n@torch.jit.script\ndef twice(x):\n    return gate(gate(x))",
        "from model import gate\ncompiler = torch.jit.script\n@compiler\ndef twice(x):\n    return gate(gate(x))",
        "from model import Net\nclass Loop:\n    def __init__(self):\n        self.m = Net()\n"
        "    def run(self):\n        return torch.jit.script(self.m)",
        "from model import Block\nclass Wide(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.b = Block()\n    @torch.jit.export\n    def run(self, x):\n        return self.b(x)",
        "from model import gate\nfast = torch.vmap(torch.vmap(gate))",
        "from torch.func import grad\nfrom model import gate\nslope = grad(lambda x: gate(x).sum())",
        "import functorch\nfrom model import gate\nfast = functorch.vmap(gate)",
        "from model import gate\nfast = getattr(torch.jit, 'script')(gate)",
        "from model import Net\nclass Loop:\n    def __init__(self, m):\n        super().__init__()\n"
        "        self.m = m\n    def run(self):\n        return torch.jit.script(self.m)\nLoop(Net())",
        "from model import gate\ndef maybe(f):\n    return torch.jit.script(f)\ndef plain(x):\n    return x\n"
        "maybe(plain)\n@maybe\ndef twice(x):\n    return gate(gate(x))",
        "from model import gate\nclass Old(torch.jit.ScriptModule):\n    @torch.jit.script_method\n"
        "    def forward(self, x):\n        return gate(x)",
    ],
)
def test_what_another_file_scripts_is_left(main: str) -> None:
    assert rewritten(main) == {OTHER}


@pytest.mark.parametrize(
    "main",
    [
        "import model\ndef export(m):\n    torch.jit.script(m).save('a')",
        "import model\nfast = [*map(torch.jit.script, [model.gate])]",
        "import importlib\nimport model\nf = importlib.import_module(name).gate\nfast = torch.jit.script(f)",
        "import model\nclass All(torch.nn.Module):\n    def __init__(self, name):\n        super().__init__()\n"
        "        self.m = getattr(model, name)()\nfast = torch.jit.script(All('Net'))",
        "import model\ndef fast(f):\n    return torch.jit.script(f)\nfast(model.gate)\n[*map(fast, model.ALL)]",
        "import model\ncompiler = getattr(torch.jit, name)\nfast = [*map(compiler, [model.gate])]",
        "import model\nclass Loop:\n    def run(self):\n        return torch.jit.script(self.m)",
    ],
)
def test_all_that_another_program_may_script_is_left(main: str) -> None:
    assert rewritten(main) == set()


@pytest.mark.parametrize(
    "main",
    [
        "from model import Net\nnet = torch.compile(Net())",
        "from model import Net\nnet = torch.func.functional_call(Net(), {}, (x,))",
        "from model import Net\nnet = getattr(torch.jit, 'trace')(Net(), x)",
        "from model import Net\n@torch.jit.script\ndef twice(x):\n    return getattr(x, 'mT') + getattr(torch, n)(x)",
        "from model import Net\n@torch.jit.script\ndef twice(x):\n    return x + x\nnet = Net()",
        "from model import gate\nclass A(torch.nn.Module):\n    @torch.jit.ignore\n    def run(self, x):\n"
        "        return gate(x)",
    ],
)
def test_what_is_not_scripted_is_rewritten(main: str) -> None:
    assert rewritten(main) == {GATE, OTHER}


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        ("export(Net())", {GATE, OTHER}),
        ("export(Net(), jit=False)", {GATE, OTHER}),
        ("export(Net(), False)", {GATE, OTHER}),
        ("export(Net(), **{'fast': True})", {GATE, OTHER}),
        ("export(Net(), jit=fast)", {OTHER}),
        ("export(Net(), True)", {OTHER}),
        ("export(Net(), **{'jit': True})", {OTHER}),
        ("options = {'jit': True}\nexport(Net(), **options)", {OTHER}),
        ("options = dict(m=Net())\noptions['jit'] = True\nexport(**options)", {OTHER}),
        ("export(Net(), **read('options.json'))", {OTHER}),
    ],
)
def test_a_switch_that_nothing_turns_on(call: str, lines: set[int]) -> None:
    exporter = "import torch\ndef export(m, jit=False):\n    if jit:\n        m = torch.jit.script(m)\n    return m\n"
    assert rewritten(f"from helper import export\nfrom model import Net\n{call}\n", helper=exporter) == lines


def test_code_beside_a_switch_that_nothing_turns_on() -> None:
    exporter = "import torch\ndef export(m, plain=False):\n    if plain:\n        return m\n    else:\n"
    exporter += "        return torch.jit.script(m)\n"
    assert rewritten("from helper import export\nfrom model import Net\nexport(Net())\n", helper=exporter) == {OTHER}


def test_a_function_that_scripts_what_its_callers_give() -> None:
    exporter = "import torch\ndef export(m):\n    return torch.jit.script(m)\n"
    main = "from helper import export\nfrom model import Net\nexport(Net())\n"
    assert rewritten(main, helper=exporter) == {OTHER}


def test_what_is_registered() -> None:
    registry = "import torch\nKNOWN = {}\ndef known(cls):\n    KNOWN[cls.__name__] = cls\n    return cls\n"
    model = "import torch\nfrom helper import known\nfrom model import gate\n@known\nclass Wide(torch.nn.Module):\n"
    model += "    def forward(self, x):\n        return gate(x)\n"
    main = "import wide\nfrom helper import KNOWN\ntorch.jit.script(KNOWN['Wide']())\n"
    assert rewritten(main, helper=registry, wide=model) == {OTHER}
