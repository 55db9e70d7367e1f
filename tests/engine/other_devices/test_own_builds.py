"""Conditions around what a project builds from CUDA sources, kernels that it tries, features that it switches off."""

import pytest

from gpu2npu.engine import migrate_source, scan_project
from gpu2npu.kinds.import_ import rules_for_built
from gpu2npu.records import FindingKind

BUILT = dict.fromkeys(("pk._fast", "top_fast"), (FindingKind.UNSUPPORTED, "It is built from CUDA sources."))
IMPORTS = [
    "if torch.cuda.is_available():\n    from pk import _fast\nelse:\n    _fast = None\n",
    "if torch.cuda.is_available():\n    from . import _fast\n",
    "def f(x):\n    if torch.cuda.is_available():\n        from top_fast import op\n        return op(x)\n",
    "try:\n    from . import _fast\nexcept ImportError:\n    _fast = None\n"
    "def f(x):\n    if x.is_cuda and _fast is not None:\n        return _fast.op(x)\n    return x\n",
]


@pytest.mark.parametrize("code", IMPORTS)
def test_conditions_for_the_projects_own_build_stay(rulebook, code):
    source = f"import torch\n{code}".encode()
    files = {"pk/__init__.py": source}
    context = scan_project(files, rulebook, "2.1.0", read=files.__getitem__)
    built = migrate_source(source, "pk/__init__.py", rules_for_built(BUILT, rulebook), context)
    assert built.content is None
    assert "built-from-cuda" in [each.rule for each in built.findings]
    assert migrate_source(source, "pk/__init__.py", rulebook, context).content is not None


TRITON = "import triton\n\n@triton.jit\ndef kernel(x):\n    pass\n"
TRIED = """import torch
def fast(x):
    from .kernels import kernel
    return kernel[(1,)](x)

def f(x):
    if x.is_cuda:
        try:
            return fast(x)
        except {}:
            {}
    return x.cpu().sort()
"""


@pytest.mark.parametrize(
    ("caught", "then", "stays"),
    [
        ("(RuntimeError, ImportError)", "print('without kernels')", True),
        ("RuntimeError", "print('without kernels')", True),
        ("ImportError", "raise", False),
    ],
)
def test_kernels_that_are_tried_for_cuda_alone_are_not_tried_for_an_npu(project, caught, then, stays):
    files = {"pk/__init__.py": "", "pk/kernels.py": TRITON, "pk/a.py": TRIED.format(caught, then)}
    assert (project(files)["pk/a.py"].content is None) is stays
    plain = project({**files, "pk/kernels.py": TRITON.replace("triton", "numba")})["pk/a.py"]
    assert plain.content is not None


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        ("if args.fp8 and device_type != 'cuda':\n    args.fp8 = False\n", True),
        ("if kind == 'fp8' and device_type != 'cuda':\n    kind = None\n", True),
        ("if kind == 'int8' and device_type != 'cuda':\n    kind = None\n", False),
        ("if device_type != 'cuda':\n    print('no')\n    args.fp8 = False\nelse:\n    import other\n", True),
        ("fp8_recipe = make() if device_type == 'cuda' else None\n", True),
        ("if args.amp and device_type != 'cuda':\n    args.amp = False\n", False),
        ("scaler = make() if device_type == 'cuda' else None\n", False),
        ("if args.fp8 or device_type != 'cuda':\n    args.fp8 = False\n", False),
    ],
)
def test_a_feature_that_only_cuda_has_stays_switched_off(project, code, stays):
    migrated = project({"a.py": f"import torch\ndevice_type = 'cuda'\n{code}x = torch.ones(2, device=device_type)\n"})[
        "a.py"
    ]
    assert ("'cuda':" in migrated.content.decode() or "== 'cuda'" in migrated.content.decode()) is stays


LOADED = "from lib import load\nkernels = load('nms', ['nms.cu'])\n"
KERNELS = {
    "the type of a device": (
        LOADED,
        "if x.device.type == 'cuda':\n    nms = kernels.nms_cuda\nelse:\n    nms = kernels.nms_cpu\n",
    ),
    "a tensor": (
        LOADED,
        "def f(x):\n    if x.is_cuda:\n        return kernels.nms_cuda(x)\n    return kernels.nms_cpu(x)\n",
    ),
    "a whole branch": (
        "from . import _C\n",
        "def f(x):\n    if x.is_cuda:\n        y = x * 2\n        _C.forward(x, y)\n        return y\n    return x\n",
    ),
    "the other branch": (
        "import ops_cuda\n",
        "def f(x):\n    if not x.is_cuda:\n        return x * 2\n    y = ops_cuda.forward(x)\n    return y\n",
    ),
    "an expression": ("from ._ext import nms_cuda\n", "def f(x):\n    return nms_cuda(x) if x.is_cuda else x\n"),
    "a package for CUDA": (
        "import flashinfer\n",
        "def f(x):\n    if x.is_cuda and ok:\n        y = flashinfer.mm_fp4(x)\n        return y\n    return x\n",
    ),
    "kernels of CuPy": ("import cupy\n", "def f(x):\n    if cupy is not None and x.is_cuda:\n        return g(x)\n"),
    "a function of autograd that calls one": (
        "import fused_lib as fused_cuda\n",
        "class Fused(torch.autograd.Function):\n    def forward(ctx, x):\n        return fused_cuda.forward(x)\n"
        "def f(x):\n    if x.is_cuda and x.dim() == 2:\n        return Fused.apply(x)\n    return x * 2\n",
    ),
    "one that a name is assigned": (
        "from pkg import _C\n",
        "class Fused(torch.autograd.Function):\n    def forward(ctx, x):\n        return _C.forward(x)\n"
        "loss_cuda = Fused.apply\n"
        "def f(x):\n    if x.is_cuda:\n        loss = loss_cuda\n    else:\n        loss = g\n    return loss(x)\n",
    ),
    "a compiled module": ("from . import _ext\n", "def f(x):\n    if x.is_cuda:\n        return _ext.nms_cuda(x)\n"),
}


@pytest.mark.parametrize(("imports", "code"), KERNELS.values(), ids=KERNELS)
def test_kernels_for_cuda_meet_no_tensor_of_an_npu(project, imports, code):
    migrated = project({"pkg/__init__.py": "", "pkg/a.py": f"import torch\n{imports}{code}"})["pkg/a.py"]
    assert migrated.content is None
    (finding,) = [each for each in migrated.findings if "CUDA kernels" in each.message]
    assert "condition" in finding.message
