import json
import pickle

import pytest

from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.engine.torch_library import TORCH
from gpu2npu.python.project.project import Project

BOTH = frozenset(FileQuestion)
CODE = "import torch\nopt = torch.optim.AdamW(ps)\n"


def analyser(questions=BOTH) -> FileAnalyser:
    return FileAnalyser("2.1.0", questions, Project(library=TORCH))


def rules(source: bytes, path: str = "a.py", **options) -> list[tuple[str, int, int]]:
    file = analyser(**options)(source, path)
    assert file.failure is None
    return [(each.rule, each.span.cell, each.span.start_line) for each in (*file.findings, *file.advice)]


def notebook(*cells: str) -> bytes:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["torch"]}, *made]}).encode()


def test_only_the_requested_questions_are_answered() -> None:
    assert ("fused-optimizer", 0, 2) in rules(CODE.encode())
    assert not rules(CODE.encode(), questions=frozenset({FileQuestion.TORCH_APIS}))


def test_a_worker_can_have_it() -> None:
    sent = pickle.loads(pickle.dumps(analyser()))
    assert sent(CODE.encode(), "a.py") == analyser()(CODE.encode(), "a.py")


def test_notebooks_are_reported_by_cell() -> None:
    source = notebook("import torch\n%matplotlib inline\n", "!pip install x", "x = 1\nopt = torch.optim.AdamW(ps)\n")
    assert rules(source, "n.ipynb") == [("fused-optimizer", 4, 2)]


@pytest.mark.parametrize(
    ("source", "path", "message"),
    [
        (b"import torch\nx = (\n", "a.py", "syntax error"),
        (b'{"torch": 1}', "a.ipynb", "not a notebook"),
        (b"torch \xff", "a.ipynb", "not UTF-8"),
        (b"import torch\nx = 1\0", "a.py", "line 2: a null byte"),
        (b"import torch\nx = " + b"(" * 5_000 + b")" * 5_000, "a.py", "nest"),
        (b"# coding: nonsense\nimport torch\n", "a.py", "unknown encoding"),
        (b"import torch\n\ny = '\xff'", "a.py", "is not utf-8"),
    ],
)
def test_what_cannot_be_read_is_the_failure_of_the_file(source: bytes, path: str, message: str) -> None:
    file = analyser()(source, path)
    assert file.failure is not None and message in file.failure and not file.findings and not file.advice


@pytest.mark.parametrize(
    "text",
    [
        f"# gpu2npu: skip\n{CODE}",
        f"# gpu2npu: skip=fused-optimizer\n{CODE}",
        "import torch\nopt = torch.optim.AdamW(ps)  # gpu2npu: skip=fused-optimizer\n",
        "import torch\n# gpu2npu: skip\nopt = torch.optim.AdamW(ps)\n",
    ],
)
def test_skip_comments(text: str) -> None:
    assert rules(text.encode()) == []


def test_only_files_that_may_have_to_do_with_torch_are_looked_at() -> None:
    sources = {"a.py": b"import os", "b.py": b"import torch"}
    look = FileAnalyser("2.1.0", BOTH, Project(frozenset(sources), sources.__getitem__, library=TORCH))
    assert look.concerns(b"import os", "a.py") and analyser().concerns(b"torch", "a.ipynb")
    assert not analyser().concerns(b"import os", "a.py")  # no file of its project names torch
    assert not analyser().concerns(b"x = 1", "a.py") and not analyser().concerns(b"torch", "a.yaml")


CALLS = "th.sspaddmm(1, 2, 3)\n"
FILES_WITHOUT_THE_WORD = {
    "a name handed on twice": {
        "a.py": "import torch as th\n",
        "b.py": "from a import th\n",
        "c.py": "from b import th\n",
    },
    "one hop": {"a.py": "import torch as th\n", "c.py": "from a import th\n"},
    "a module's attribute": {"a.py": "import torch as th\n", "c.py": "import a\nth = a.th\n"},
    "a star": {"a.py": "import torch as th\n", "b.py": "from a import *\n", "c.py": "from b import *\n"},
    "a package": {
        "p/__init__.py": "from .a import th\n",
        "p/a.py": "import torch as th\n",
        "c.py": "from p import th\n",
    },
    "an own package": {"p/__init__.py": "import torch as th\n", "p/c.py": "from . import th\n"},
    "a folder src": {"src/p/a.py": "import torch as th\n", "src/p/__init__.py": "", "c.py": "from p.a import th\n"},
    "an alias": {"a.py": "import torch\nth = torch\n", "c.py": "from a import th\n"},
    "a condition": {
        "a.py": "try:\n    import torch as th\nexcept ImportError:\n    th = None\n",
        "c.py": "from a import th\n",
    },
    "a circle": {"a.py": "import torch as th\nfrom c import x\n", "c.py": "from a import th\nx = 1\n"},
}


@pytest.mark.parametrize("texts", FILES_WITHOUT_THE_WORD.values(), ids=FILES_WITHOUT_THE_WORD)
def test_a_file_that_gets_torch_from_another_file(texts: dict[str, str]) -> None:
    path = next(path for path in texts if path.endswith("c.py"))
    sources = {each: (text + (CALLS if each == path else "")).encode() for each, text in texts.items()}
    look = FileAnalyser("2.1.0", BOTH, Project(frozenset(sources), sources.__getitem__, library=TORCH))
    assert b"torch" not in sources[path] and look.concerns(sources[path], path)
    assert [finding.api for finding in look(sources[path], path).findings] == ["torch.sspaddmm"]
    assert look.project.consulted[path]  # the answer depends on others


def test_objects_of_classes_of_another_file() -> None:
    sources = {
        "a.py": b"import torch\nclass Net(torch.nn.Module): ...\n",
        "c.py": b"from a import Net\nNet().double()\n",
    }
    look = FileAnalyser("2.1.0", BOTH, Project(frozenset(sources), sources.__getitem__, library=TORCH))
    assert [advice.rule for advice in look(sources["c.py"], "c.py").advice] == ["float64-in-cube-unit"]


def test_what_cannot_be_read_and_has_nothing_to_do_with_torch_is_not_reported() -> None:
    assert analyser()(b"import os\nprint 'x'\n", "a.py").failure is None


def test_warnings_about_the_source_stay_silent(recwarn: pytest.WarningsRecorder) -> None:
    assert analyser()(b"import torch\nx = '\\d'\ny = 1 is 1\n", "x.py").failure is None
    assert not recwarn


def test_limits_by_chip() -> None:
    source = (
        b"import torch\nwith torch.autocast('cuda', torch.bfloat16):\n    torch.nn.Linear(2, 2, dtype=torch.float64)\n"
    )

    def found(*chips: str) -> list[tuple[int, str]]:
        look = FileAnalyser("2.7.1", BOTH, Project(library=TORCH), chips=chips)
        return [(each.span.start_line, each.message.partition(":")[0]) for each in look(source, "a.py").findings]

    assert found("910B") == [(3, "The cube unit has no float64")]
    first = "Chips of the first generation do not compute in bfloat16"
    assert found("910A") == [(2, first), (3, "The cube unit has no float64")]
    assert found("910A", "910B", "310P") == [(2, "On 910A and 310P"), (3, "The cube unit has no float64")]


@pytest.mark.parametrize(
    ("dtype", "op", "chips"),
    [
        ("torch.int64", "", ["310P"]),
        ("torch.float64", "", ["910A", "910B", "910_93", "310P"]),
        ("torch.bfloat16", "dist.ReduceOp.PRODUCT", ["910A", "910B", "910_93", "310P"]),
        ("torch.bfloat16", "dist.ReduceOp.SUM", ["910A", "310P"]),
        ("torch.int32", "op=dist.ReduceOp.BXOR", ["910A", "910B", "910_93", "310P", "950"]),
        ("torch.float32", "", []),
    ],
)
def test_what_each_chip_does_not_reduce(dtype: str, op: str, chips: list[str]) -> None:
    source = f"""import torch
import torch.distributed as dist
x = torch.ones(4, device="cuda", dtype={dtype})
dist.all_reduce(x, {op})
"""
    found = []
    for chip in ("910A", "910B", "910_93", "310P", "950"):
        look = FileAnalyser("2.7.1", BOTH, Project(library=TORCH), chips=(chip,))
        found += [chip for each in look(source.encode(), "a.py").findings if each.span.start_line == 4]
    assert found == chips


@pytest.mark.parametrize(
    ("text", "is_limited"),
    [
        ("x = torch.arange(4).cuda()\nx @ x", True),
        ("x = torch.arange(4)\nx @ x", False),  # on the CPU
        ("x = torch.arange(4.0).cuda()\nx @ x", False),
        ("x = torch.from_numpy(np.zeros((2, 2))).cuda()\nx @ x", True),
        ("x = torch.from_numpy(np.zeros((2, 2))).float().cuda()\nx @ x", False),
        ("x = torch.from_numpy(np.zeros((2, 2), np.float32)).cuda()\nx @ x", False),
        ("x = torch.from_numpy(np.zeros((2, 2), dtype='float32')).cuda()\nx @ x", False),
        ("x = torch.from_numpy(a.astype(np.float64)).cuda()\nx @ x", True),
        ("x = torch.tensor([1.5, 2]).cuda()\nx @ x", False),
        ("x = torch.tensor([[1, 2], [3, 4]], device='cuda')\nx @ x", True),
        ("x = torch.ones(2, 2, dtype=torch.float64).cuda().to(dtype)\nx @ x", False),
        ("x = torch.ones(2, 2, dtype=torch.float64).to(device, torch.float32)\nx @ x", False),
        ("x = torch.arange(4).cuda()\nfor m in net.modules():\n    y = x.to(m.weight.dtype)\n    y @ y", False),
        ("x = torch.ones(2, 2, dtype=torch.int64).cuda()\ntorch.einsum('ij,ij->ij', x, x)", False),
        ("x = torch.ones(2, 2, dtype=torch.int64).cuda()\ntorch.einsum('ij,jk', x, x)", True),
        ("X = torch.ones(2, 2, dtype=torch.float64)\ndef f(y):\n    return y @ X.T", False),  # so is y
        ("X = torch.ones(2, 2, dtype=torch.float64, device='cuda')\ndef f(y):\n    return y @ X.T", True),
        ("X = torch.ones(2, 2, dtype=torch.float64).cuda()\ndef f(y):\n    return y @ X.T", True),
        ("def f(y):\n    X = torch.ones(2, 2, dtype=torch.float64)\n    return y @ X.T", True),
        ("torch.mm(y.double(), y)", True),  # on the NPU it is float32, which the cast is reported for
        ("torch.sum(y.double())", False),
        ("x = y.double().cuda()\nx @ x", True),
        ("x = y.double()\nx @ x", False),  # on the NPU it is float32
        ("x = torch.ones(2, dtype=torch.complex32, device='cuda')\nx + x", True),
        ("x = torch.ones(2, dtype=torch.complex64, device='cuda')\nx + x", False),
        ("x = torch.ones(2, dtype=torch.int8).cuda()\nx % 2", True),
        ("x = torch.ones(2, dtype=torch.int8).cuda()\n'%s' % x", False),
        ("x = torch.ones(2, dtype=torch.int8)\nx % 2", False),
        ("x = torch.ones(2, dtype=torch.int8).cuda()\nx * 2", False),
        ("torch.nn.Linear(2, 2).to('cpu', torch.float64)", False),
        ("torch.nn.Linear(2, 2).to('cuda', torch.float64)", True),
        ("net = torch.nn.Linear(2, 2).cuda()\nfor p in net.parameters():\n    p.to(torch.float64)", True),
        ("net = torch.nn.Linear(2, 2).cuda()\n[p.double() for _, p in net.named_parameters()]", True),
        ("net = torch.nn.Linear(2, 2).cuda()\nnet.eval().weight.double()", True),
        ("net = torch.nn.Linear(2, 2)\n[p.double() for p in net.parameters()]", False),  # on the CPU
        ("net = torch.nn.Linear(2, 2).cuda()\nnet.in_features.double()", False),
    ],
)
def test_dtypes_that_the_text_implies(text: str, is_limited: bool) -> None:
    found = rules(f"import numpy as np\nimport torch\n{text}\n".encode())
    assert [rule for rule, *_ in found] == ["npu-limit"] * is_limited


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("dist.init_process_group('nccl')\ny.cuda()", True),
        ("dist.init_process_group(backend='nccl')\ny.to('cuda')", True),
        ("dist.init_process_group('gloo')\ny.cuda()", False),
        ("dist.init_process_group('nccl')", False),
        ("torch.cuda.set_device(r)\ndist.init_process_group('nccl')\ny.cuda()", False),
        ("dist.init_process_group('nccl')\ny.to(f'cuda:{r}')", False),
        ("dist.init_process_group('nccl')\ny.cuda(args.local_rank)", False),
    ],
)
def test_ranks_that_choose_no_device_are_reported(text: str, is_reported: bool) -> None:
    found = rules(f"import torch\nimport torch.distributed as dist\n{text}\n".encode())
    assert ("npu-limit" in [rule for rule, *_ in found]) == is_reported


FLOWS = {
    "a name bound anew afterwards": (
        "t = torch.tensor([a, b], dtype=torch.float64, device='cuda')\ndist.all_reduce(t)\nt = t.tolist()",
        [(4, "torch.distributed.all_reduce")],
    ),
    "a name bound anew before": (
        "t = torch.zeros(2, dtype=torch.float64, device='cuda')\nt = t.float()\ndist.all_reduce(t)",
        [],
    ),
    "to the host and back": (
        "t = torch.eye(3, dtype=torch.float64).cuda()\ndist.all_reduce(t.cpu().cuda())",
        [(4, "torch.distributed.all_reduce")],
    ),
    "an array that is sent in a loop": (
        "import numpy as np\nb = np.eye(3)\nfor _ in x:\n    t = torch.from_numpy(b).to('cuda')\n"
        "    dist.all_reduce(t)\n    b = t.cpu().numpy()",
        [(7, "torch.distributed.all_reduce")],
    ),
    "a dtype by its name": (
        "name = 'float64'\nt = torch.zeros(2, dtype=getattr(torch, name), device='cuda')\ndist.all_reduce(t)",
        [(5, "torch.distributed.all_reduce")],
    ),
    "what partial makes": (
        "from functools import partial\nmake = partial(torch.zeros, dtype=torch.float64)\n"
        "near = partial(make, 2, device='cuda')\ndist.all_reduce(near())\ndist.all_reduce(near(dtype=torch.float32))",
        [(6, "torch.distributed.all_reduce")],
    ),
    "an array of floats": (
        "import numpy as np\nt = torch.from_numpy(np.array([0.5, n])).cuda()\ndist.all_reduce(t)\n"
        "dist.all_reduce(torch.from_numpy(np.array([1, 2])).cuda())",
        [(5, "torch.distributed.all_reduce")],
    ),
    "a new tensor of another dtype": (
        "x = x.cuda()\ndist.all_reduce(x.new_tensor([1], dtype=torch.float64))\n"
        "dist.all_reduce(torch.eye(2, dtype=torch.float64, device='cuda').new_full((2,), 0.0, dtype=torch.float32))",
        [(4, "torch.distributed.all_reduce")],
    ),
    "a cast on the NPU": ("dist.all_reduce(x.cuda().double())", [(3, "torch.Tensor.double")]),
    "a stack": (
        "a = [torch.zeros(2, dtype=torch.float64, device='cuda') for _ in b]\ndist.all_reduce(torch.stack(a))",
        [(4, "torch.distributed.all_reduce")],
    ),
    "what a list gets in a loop": (
        "a = []\nfor i in b:\n    a.append(torch.tensor(i, dtype=torch.double, device='cuda'))\n"
        "dist.all_reduce(torch.stack(a).sum())",
        [(6, "torch.distributed.all_reduce")],
    ),
    "a counter in a class": (
        "class Meter:\n    def __init__(self):\n        self.n = torch.zeros(1, dtype=torch.float64)\n"
        "    def add(self, x):\n        self.n += x\n"
        "    def sync(self):\n        dist.all_reduce(self.n)\n        self.n = self.n.tolist()",
        [(9, "torch.distributed.all_reduce")],
    ),
    "the operation in a dictionary": (
        "kind = {'op': dist.ReduceOp.BAND}\ndist.all_reduce(torch.ones(2).cuda(), **kind)",
        [(4, "torch.distributed.all_reduce")],
    ),
    "what a loss gives": (
        "class Sum:\n    def add(self, loss):\n        return loss.double()\n"
        "x = torch.ones(2, device='cuda')\nSum().add(torch.nn.functional.mse_loss(x, x))",
        [(5, "torch.Tensor.double")],
    ),
    "elements with their numbers": (
        "a = []\nfor n in b:\n    a.append(torch.rand(4).cuda())\nfor i, each in enumerate(a):\n    each.double()\n"
        "for one, other in zip(a, a):\n    other.to(torch.float64)",
        [(7, "torch.Tensor.double"), (9, "torch.Tensor.to")],
    ),
    "a type as a dtype": (
        "a = torch.full((2,), n, device='cuda')\na.type(torch.float64)\na.type(torch.float32)",
        [(4, "torch.Tensor.type")],
    ),
    "numbers on the host": ("a = torch.ones(2, 2)\ntorch.polar(a.double(), a.double())\na.to(torch.float8_e5m2)", []),
    "numbers where the NPU is the default": (
        "torch.set_default_device('cuda')\na = torch.ones(2, 2)\na.to(torch.float8_e5m2)",
        [(5, "torch.Tensor.to")],
    ),
    "an attribute that a class of torch sets": (
        "class Pool(torch.nn.MaxPool2d):\n    def forward(self, x):\n"
        "        return torch.nn.functional.max_pool2d(x.cuda(), self.kernel_size, 1, 0, self.dilation)",
        [],
    ),
    "a Fourier layer": (
        "class Layer(torch.nn.Module):\n    def __init__(self, n):\n"
        "        self.w = torch.nn.Parameter(1 / n * torch.rand(n, n, dtype=torch.cfloat))\n"
        "    def product(self, a, b):\n        return torch.einsum('bix,iox->box', a, b)\n"
        "    def forward(self, x):\n        y = torch.fft.rfft(x)\n        z = torch.zeros(n, n, dtype=torch.cfloat)\n"
        "        z[:, :4] = self.product(y[:, :4], self.w)\n        return torch.fft.irfft(z)",
        [(7, "torch.einsum")],
    ),
    "arithmetic": (
        "z = torch.view_as_complex(x)\ny = z[i] * x\ntorch.bmm(y, x)\ny @ x\ntorch.fft.irfft(z) @ x\nz.abs() @ x\n"
        "torch.matmul(x, y)",
        [(5, "torch.bmm"), (6, "torch.Tensor.__matmul__"), (9, "torch.matmul")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "limited"), FLOWS.values(), ids=FLOWS)
def test_dtypes_follow_the_values(text: str, limited: list[tuple[int, str]]) -> None:
    source = f"import torch\nimport torch.distributed as dist\n{text}\n"
    look = FileAnalyser("2.7.1", frozenset({FileQuestion.TORCH_APIS}), Project(library=TORCH))
    found = look(source.encode(), "a.py").findings
    assert [(each.span.start_line, each.api) for each in found] == limited


@pytest.mark.parametrize(
    ("index", "is_named"),
    [
        ("[:, None, None, :]", True),
        ("[:, None]", False),
        ("[:, None, None, 0]", False),
        ("[:, None, i, :]", False),
        (".view(B, 1, 1, S)", True),
        (".view(B, 1, 1, -1)", True),
        (".unsqueeze(1).unsqueeze(1)", True),
        ("[:, None, None, :].expand(B, 1, S, S)", False),
        ("[:, None, None, :].expand(B, 1, S, -1)", False),
        (".reshape(B, 1, 1, S).transpose(-1, -2).permute(0, 1, 3, 2)", True),
        (".view(n, m)", False),
    ],
)
def test_a_view_has_the_shape_of_its_indices(index: str, is_named: bool) -> None:
    """A mask of [B, 1, 1, Sk] is not broadcast; of another rank or shape nothing is known."""
    text = (
        "import torch\nimport torch.nn.functional as F\nB, S = 2, 16\n"
        "q = torch.rand(B, 4, S, 32, dtype=torch.float16, device='cuda')\n"
        "keep = torch.arange(S, device='cuda')[None] < torch.ones(B, 1, device='cuda')\n"
        f"F.scaled_dot_product_attention(q, q, q, keep{index})\n"
    )
    look = FileAnalyser("2.6.0", frozenset({FileQuestion.TORCH_APIS}), Project(library=TORCH))
    messages = [each.message for each in look(text.encode(), "a.py").findings]
    assert any("takes a mask" in each for each in messages) is is_named


def test_long_arithmetic_is_followed_to_a_depth() -> None:
    lines = "".join(f"x{each + 1} = x{each} * torch.add(x{each}, 1) - x{each}\n" for each in range(400))
    assert rules(f"import torch\nx0 = torch.ones(2, dtype=torch.float64)\n{lines}torch.mm(x400, x400)\n".encode()) == []


def test_an_api_and_its_limit_are_one_finding() -> None:
    assert rules(b"import torch\nx = torch.sparse_csr_tensor(a, b, c)\n") == [("npu-limit", 0, 2)]


@pytest.mark.parametrize("member", ["float32.get", "bool.items", "int8.keys"])
def test_members_of_dtypes_are_no_apis(member: str) -> None:
    assert rules(f"import torch\ntorch.{member}(1)\n".encode()) == []


@pytest.mark.parametrize(
    ("text", "is_limited"),
    [
        ("torch.nn.LSTM(3, 4, proj_size=2)", True),
        ("torch.nn.LSTM(3, 4, proj_size=0)", False),
        ("class N:\n    def f(self, p=0):\n        return torch.nn.LSTM(3, 4, proj_size=p)", False),
        ("class N:\n    def f(self, *, p=2):\n        return torch.nn.LSTM(3, 4, proj_size=p)", True),
        ("class N:\n    def f(self, p):\n        return torch.nn.LSTM(3, 4, proj_size=p)", False),
        ("class N:\n    def f(self):\n        return torch.nn.LSTM(3, 4, proj_size=self.p)", False),
        ("def f():\n    p = 2\n    return torch.nn.LSTM(3, 4, proj_size=p)", True),
        ("def f(x, d=(1, 1)):\n    return torch.nn.functional.max_pool2d(x, 2, 1, (0, 0), d)", False),
        ("loss = torch.nn.CTCLoss()\nloss(p, t, (4, 4), (0, 2))", True),
        (
            "class N:\n    loss = torch.nn.CTCLoss()\n    def f(self, p, t):\n        self.loss(p, t, (4,), [0])",
            True,
        ),
        ("torch.nn.CTCLoss()(p, t, (4, 4), target_lengths=(1, 2))", False),
        ("torch.nn.functional.ctc_loss(p, t, n, torch.tensor([0, 2]))", True),
        ("n = torch.LongTensor([2, 0])\nloss = torch.nn.CTCLoss()\nloss(p, t, n, n)", True),
        ("n = torch.tensor([2, 1])\ntorch.nn.functional.ctc_loss(p, t, n, n)", False),
        ("def f(n):\n    torch.nn.functional.ctc_loss(p, t, n, torch.tensor([n, 2]))", False),
        (
            "x = torch.outer(torch.arange(4, device='cuda'), torch.ones(4, dtype=torch.float64, device='cuda'))\n"
            "x.repeat_interleave(2)",
            True,
        ),
        ("torch.matmul(torch.ones(1, 1, 1, 1, 1, 2, 2, device='cuda'), x)", True),
        ("x = torch.fft.fft(torch.ones(4, device='cuda'))\ny = x[torch.arange(2)]", True),
        ("x = torch.fft.fft(torch.ones(4, device='cuda'))\ny = x[0]\nfor i in range(2):\n    z = x[i]", False),
    ],
)
def test_a_limit_of_arguments_holds_where_the_text_says_the_value(text: str, is_limited: bool) -> None:
    assert [rule for rule, *_ in rules(f"import torch\n{text}\n".encode())] == ["npu-limit"] * is_limited


@pytest.mark.parametrize(
    ("imports", "array", "is_wide"),
    [
        ("import numpy as np", "np.zeros(2)", True),
        ("import numpy", "numpy.random.rand(2)", True),
        ("import numpy as n", "n.linspace(0, 1)", True),
        ("from numpy import ones", "ones(2)", True),
        ("import numpy as np", "np.load(f).astype(float)", True),
        ("import numpy as np", "np.load(f).astype('float')", True),
        ("import numpy as np", "np.load(f, dtype=float)", True),
        ("import numpy as np", "np.array([1.5])", True),
        ("import numpy as np", "np.array([1])", False),
        ("import numpy as np", "np.array([1.5], dtype=np.float32)", False),
    ],
)
def test_every_spelling_of_a_wide_array_is_seen(imports: str, array: str, is_wide: bool) -> None:
    made = f"x = torch.from_numpy({array}).cuda()"
    found = rules(f"{imports}\nimport torch\n{made}\ntorch.nn.functional.gelu(x)\n".encode())
    assert any(rule == "npu-limit" for rule, _, _ in found) is is_wide


def test_a_dtype_of_another_file_is_that_of_what_it_makes():
    made = "import functools\nimport torch\nmake = functools.partial(torch.zeros, dtype=torch.float64)\n"
    reduced = "import torch.distributed as dist\nfrom made import make\ndist.all_reduce(make(2, device='cuda'))\n"
    sources = {"made.py": made.encode(), "reduced.py": reduced.encode()}
    project = Project(frozenset(sources), sources.__getitem__, library=TORCH)
    look = FileAnalyser("2.7.1", frozenset({FileQuestion.TORCH_APIS}), project)
    found = look(sources["reduced.py"], "reduced.py").findings
    assert [(each.span.start_line, each.api) for each in found] == [(3, "torch.distributed.all_reduce")]
