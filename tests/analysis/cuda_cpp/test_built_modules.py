"""Modules that a project builds from CUDA sources are reported where they are imported."""

from gpu2npu.analysis.cuda_cpp.extensions import built_modules
from gpu2npu.engine import migrate_source, scan_project
from gpu2npu.kinds.import_ import rules_for_built
from gpu2npu.records import FindingKind
from gpu2npu.rulebook import load_rulebook

SETUP = "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[{}])\n"
FILES = {
    "modules/splat/setup.py": SETUP.format("CUDAExtension('splat._C', ['a.cpp', 'a.cu'])"),
    "modules/splat/splat/__init__.py": "from . import _C\n",
    "modules/plain/plain.py": "x = 1\n",
    "tools/setup.py": SETUP.format("CUDAExtension('kit._fast', ['c.cu']), CUDAExtension('ops._C', ['d.cu'])"),
    "tools/kit/__init__.py": "from .base import run\n",
    "tools/kit/base.py": "try:\n    from kit import _fast\nexcept ImportError:\n    _fast = None\n",
    "tools/ops/__init__.py": "from . import base\n",
    "tools/ops/base.py": "import ops._C as native\n",
    "setup.py": SETUP.format("CUDAExtension('own._C', ['b.cu'])"),
    "own/__init__.py": "",
    "lib/near/setup_linux.py": "from setuptools import Extension, setup\n"
    "setup(ext_modules=[Extension('fast_near', ['e.cu', 'f.pyx']), Extension('slow_near', ['g.pyx'])])\n",
    "lib/near/near.py": "from .slow_near import near\nfrom .fast_near import near as fast\n",
    "a.py": "import splat\nimport near_points\nimport warp_fast\nimport plain\nimport own\nimport json\n",
}
OTHERS = {
    ".gitmodules": '[submodule "m/near-points"]\n\tpath = m/near-points\n\turl = https://example.org/near-points.git\n'
    "\tpath = third_party/json\n",
    "environment.yml": "dependencies:\n  - pip:\n    - modules/splat\n    - git+https://example.org/warp-fast-cuda.git@v1\n",
    "requirements.txt": "torch==2.1\n-e modules/plain\n--index-url https://example.org/x-cuda\n",
}


def test_a_module_that_is_built_from_cuda_sources_is_reported():
    rulebook = load_rulebook()
    data = {path: text.encode() for path, text in FILES.items()}
    context = scan_project(data, rulebook, "2.1.0", read=data.__getitem__)
    built = built_modules(context.project, {path: text.encode() for path, text in OTHERS.items()})
    assert {name: kind for name, (kind, _) in built.items()} == {
        "splat": FindingKind.UNSUPPORTED,
        "splat._C": FindingKind.UNSUPPORTED,
        "own._C": FindingKind.UNSUPPORTED,
        "kit._fast": FindingKind.UNSUPPORTED,
        "ops._C": FindingKind.UNSUPPORTED,
        "ops": FindingKind.UNSUPPORTED,
        "fast_near": FindingKind.UNSUPPORTED,
        "lib.near.fast_near": FindingKind.UNSUPPORTED,
        "near_points": FindingKind.UNKNOWN,
        "warp_fast": FindingKind.UNKNOWN,
    }
    file = migrate_source(data["a.py"], "a.py", rules_for_built(built, rulebook), context)
    assert [each.api for each in file.findings] == ["splat", "near_points", "warp_fast"]
    for path, line in (("own/ops.py", "from . import _C"), ("own/more/ops.py", "from .. import _C")):
        file = migrate_source(f"import torch\n{line}\n".encode(), path, rules_for_built(built, rulebook), context)
        assert [each.api for each in file.findings] == ["own._C"]
    file = migrate_source(data["lib/near/near.py"], "lib/near/near.py", rules_for_built(built, rulebook), context)
    assert [each.api for each in file.findings] == ["lib.near.fast_near"]
    assert not migrate_source(b"from . import base\n", "splat/a.py", rules_for_built(built, rulebook), context).findings
