"""Rules say what CUDA alone has: no product is named in the code that decides about regions and values."""

import re
from pathlib import Path

import pytest

import gpu2npu
from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.rulebook import Rulebook, load_rulebook

PACKAGE = Path(gpu2npu.__file__).parent
PRODUCTS = re.compile(
    r"bitsandbytes|xformers|flash_?attn|nvidia-smi|\bapex|nf4|fp8|tensorrt|cupy|pycuda|pynvml|\bbnb|nvshmem",
    re.IGNORECASE,
)
# What reads CUDA's own C++, and the rewrites that are for one package each: their subject is the product.
APART = (
    "analysis/cuda_cpp/",
    "analysis/affinity/",
    "codemods/affinity/",
    "codemods/apex_amp.py",
    "codemods/templates/",
)
APEX_AMP = re.compile(r"apex", re.IGNORECASE)  # where the codemod for apex's mixed precision is chosen and listed
RULEBOOK = load_rulebook()
TRAITS = [rule for rule in RULEBOOK.rules if rule.match.key == "cuda_only"]


def test_no_product_is_named_in_python():
    named = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for package in ("engine", "python", "codemods", "analysis", "project", "kinds")
        for path in sorted((PACKAGE / package).rglob("*.py"))
        if not path.relative_to(PACKAGE).as_posix().startswith(APART)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PRODUCTS.search(line) and not (package in ("codemods", "project") and APEX_AMP.search(line))
    ]
    assert named == []


@pytest.mark.parametrize("rule", TRAITS, ids=lambda rule: rule.id)
def test_each_example_is_left_alone_because_of_its_rule(rule):
    """Without the rule the NPU takes the branch."""
    others = Rulebook(tuple(each for each in RULEBOOK.rules if each is not rule), RULEBOOK.roles)
    for example in rule.examples:
        changed = migrate_file(example.before.encode(), "a.py", others, ProjectContext(version="2.1.0"))
        assert b"npu" in (changed.content or b""), example.before


def test_a_choice_of_a_provider_stays_by_its_text_and_in_a_table(project):
    code = (
        "import onnxruntime\nTABLE = {'cpu': 'CPUExecutionProvider', 'cuda': 'CUDAExecutionProvider'}\n"
        "def f(device):\n    if device == 'cpu':\n        return []\n    if device == 'cuda':\n"
        "        a = onnxruntime.get_available_providers()\n        if 'CUDAExecutionProvider' in a:\n"
        "            return ['CUDAExecutionProvider']\n        log('no')\n    return []\n"
    )
    assert project({"a.py": code})["a.py"].content is None
    calls = code.replace("log('no')", "return torch.zeros(2)").replace("import ", "import torch, ", 1)
    assert b"device == 'npu'" in project({"a.py": calls})["a.py"].content


HUB = "from kernels import {0}\ntry:\n    fast = {0}('some/rope')\nexcept Exception:\n    fast = None\n"
HUB += "if fast is not None and x.is_cuda:\n    y = fast.rope(x)\nelse:\n    y = rope(x)\n"
FLOAT8 = (
    "if x.is_cuda and torch.cuda.get_device_capability() >= (8, 9):\n    y = mul(x.to({}), out_dtype=torch.bfloat16)\n"
)
OF_CLASS = "if {}:\n    a.for_cpu = not torch.cuda.is_available()\n"


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        (HUB.format("get_kernel"), True),
        (HUB.format("make_rope"), False),
        (FLOAT8.format("torch.float8_e4m3fn"), True),
        (OF_CLASS.format("isinstance(a, CUDAOpBuilder)"), True),
        (OF_CLASS.format("isinstance(a, CUDAOpBuilder) and not a.is_rocm()"), True),
        (OF_CLASS.format("not isinstance(a, CUDAOpBuilder)"), False),
        (OF_CLASS.format("isinstance(a, CUDAOpBuilder) or b"), False),
    ],
)
def test_a_kernel_of_the_hub_and_an_object_for_cuda_keep_their_code(project, code, stays):
    assert (project({"a.py": f"import torch\n{code}"})["a.py"].content is None) is stays
