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


KERNELS = "import triton\n\n@triton.jit\ndef kernel(x):\n    pass\n"
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
    files = {"pk/__init__.py": "", "pk/kernels.py": KERNELS, "pk/a.py": TRIED.format(caught, then)}
    assert (project(files)["pk/a.py"].content is None) is stays
    plain = project({**files, "pk/kernels.py": KERNELS.replace("triton", "numba")})["pk/a.py"]
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
