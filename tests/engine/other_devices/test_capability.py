"""Conditions under which a program asks how capable a GPU is."""

import pytest

CAPABILITY = [
    ("if {}:\n    new = {}'cuda')\n", True),
    ("if {}:\n    i = torch.cuda.current_device()\n    new = {}i)[0] > 7\n    print(new)\n", True),
    ("if {}:\n    for i in range(n):\n        major, minor = {}i)\n        found.add(major)\n", True),
    (
        "def f():\n  if not {}:\n    return False\n  if {}'cuda') < (8, 0):\n    return False\n"
        "  try:\n    import triton\n  except ImportError:\n    return False\n  return True\n",
        True,
    ),
    ("if not {}:\n    new = (0, 0)\nelse:\n    new = {})\n", True),
    ("new = {1})[0] >= 8 if {0} else False\n", True),
    ("new = {} and {})[0] >= 8\n", True),
    ("new = 1 if {} and wide and {})[0] >= 8 else 2\n", True),
    ("if {}:\n    device = 'cuda'\n    new = {})[0] > 7\n", False),
    ("if {}:\n    net.to(device)\n    new = {})[0] > 7\n", False),
    ("def train():\n    net.cuda()\nif {}:\n    print({}))\n    train()\n", False),
    ("if {}:\n    try:\n        new = {})\n    except Exception:\n        new = None\n", False),
    ("if {}:\n    if wide:\n        new = {})\n", False),
    ("if {}:\n    torch.cuda.empty_cache()\n    new = {})\n", False),
    ("if {}:\n    print({}))\n", False),
    ("use = False\nif {}:\n    use = True\n    new = {})\nif use:\n    net.npu()\n", False),
    ("if {}:\n    new = {})\n    start('nccl')\n", False),
    ("if {}:\n    major, minor = {})\n    self.scaler = Scaler()\n", False),
    ("if {}:\n    count = torch.cuda.device_count()\n    new = {})\nprint(count)\n", False),
    ("if {}:\n    new = dict(name=name, capability={}))\n", False),
    ("def f():\n  if not {}:\n    return\n  major, minor = {})\n  train()\n", False),
    ("if {}:\n    major, minor = {})\n    if major < 7:\n        raise ValueError\n    log.info(major)\n", True),
    ("on = {} and {})[0] >= 5\nplace = 'cuda' if on else 'cpu'\n", False),
    ("if {} and {})[0] >= 5 and wide:\n    net.cuda()\n", False),
    ("assert {} and {})[0] >= 8\nnet.cuda()\n", False),
    ("if not ({} and {})[0] >= 8):\n    raise ValueError\nnet.cuda()\n", False),
    ("if not ({} and {})[0] >= 8):\n    raise ValueError\nkernel(x)\n", True),
    ("def f():\n  if {}:\n    cc = {})\n    if cc[0] < 7:\n      return 1\n    return 'gpu'\n  return 1\n", False),
    ("if not ({} and {})[0] >= 8):\n    place = 'cpu'\nelse:\n    place = 'cuda'\n", False),
    ("self.use_gpu = {} and {})[0] >= 5\n", False),
    ("def has_cuda():\n    return {} and {})[0] >= 5\n", False),
    ("run(gpu={} and {})[0] >= 5)\n", False),
    ("on: bool = {} and {})[0] >= 5\nplace = 'cuda' if on else 'cpu'\n", False),
    ("run(bf16={} and {})[0] >= 5)\n", True),
    ("self.use_cuda_kernel = {} and {})[0] >= 5\n", True),
    ("on = {} and {})[0] >= 5\nkind = half if on else whole\n", True),
    ("new = {1}) if {0} else None\n", False),  # as on an NPU
    ("new = wide and ({} or {}))\n", False),
    ("if not {}:\n    print({}))\n", False),
]


@pytest.mark.parametrize(("code", "stays"), CAPABILITY)
@pytest.mark.parametrize("question", ["torch.cuda.is_available()", "x.is_cuda", "x.device.type == 'cuda'"])
def test_a_condition_stays_where_only_a_gpu_can_answer(project, code, stays, question):
    text = "import torch\n" + code.format(question, "torch.cuda.get_device_capability(")
    migrated = project({"a.py": text})["a.py"]
    assert migrated.content is None or (question in migrated.content.decode()) is stays
    assert any("this condition" in found.message for found in migrated.findings) is stays
    is_whole = migrated.content is None  # the capability is in the condition that stays
    assert any(found.api == "torch.cuda.get_device_capability" for found in migrated.findings) is not is_whole


@pytest.mark.parametrize(
    ("property_of_gpu", "stays"),
    [
        ("torch.cuda.get_device_properties(0).multi_processor_count", True),
        ("properties.multi_processor_count", True),
        ("torch.cuda.get_device_properties(0).major", True),
        ("torch.cuda.get_device_properties(0).name", False),
        ("properties.major", False),
    ],
)
def test_a_condition_stays_where_only_a_gpu_has_a_property(migrate, property_of_gpu, stays):
    assert ("x.is_cuda" in migrate(f"import torch\nn = {property_of_gpu} if x.is_cuda else 1\n")) is stays


@pytest.mark.parametrize(
    "test",
    ["(cap := torch.cuda.get_device_capability())[0] >= 8", "-major >= 8", "sm() >= 8", "major >= 8"],
)
def test_a_comparison_is_replaced_where_it_is_of_the_capability_itself(migrate, test):
    text = (
        "import torch\nmajor, _ = torch.cuda.get_device_capability()\n"
        "def sm():\n    return torch.cuda.get_device_capability()[0] + 1\n"
        f"if {test}: kind = torch.bfloat16\nelse: kind = torch.float16\n"
    )
    assert ("is_bf16_supported" in migrate(text)) is (test == "major >= 8")


@pytest.mark.parametrize(
    "code",
    [
        "top = torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0)\n",
        "def f():\n    if not torch.cuda.is_available():\n        return None\n"
        "    major, minor = torch.cuda.get_device_capability()\n    return major, torch.cuda.get_device_name()\n",
    ],
)
def test_what_a_condition_that_stays_guards_stays_too(migrate, code):
    assert migrate(f"import torch\n{code}") == f"import torch\n{code}"


LOCAL = """import torch
def capability():
    if torch.cuda.is_available():
        device = torch.device("cuda")
        found = torch.cuda.get_device_capability(device)
        return float(f"{found[0]}.{found[1]}")
    return None
def other(device):
    return device
"""


def test_a_name_of_another_function_is_another_name(migrate):
    assert migrate(LOCAL) == LOCAL


FLAG = """import torch
if torch:
    OF_CUDA = {} is not None
    OF_ROCM = torch.version.hip is not None
else:
    OF_CUDA = OF_ROCM = False
def major():
    if OF_CUDA or OF_ROCM:
        return torch.cuda.get_device_capability()[0]
    return None
"""


@pytest.mark.parametrize(("build", "stays"), [("torch.version.cuda", True), ("torch.version.git_version", False)])
def test_what_a_flag_of_the_build_guards_is_not_for_npus(migrate, build, stays):
    assert ("torch.npu" in migrate(FLAG.format(build))) is not stays


@pytest.mark.parametrize(
    ("last", "stays"), [("torch.cuda.get_device_capability(x.device) >= (8, 0)", True), ("True", False)]
)
def test_a_condition_that_only_leads_to_answers_about_a_gpu_stays(migrate, last, stays):
    text = (
        "import torch\ndef f(x):\n    if x.device.type == 'cuda':\n"
        f"        if hasattr(torch, 'grouped_mm'):\n            return {last}\n        return False\n    return True\n"
    )
    assert ("== 'cuda'" in migrate(text)) is stays


@pytest.mark.parametrize(
    "code",
    [
        "ok = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] > 7\n"
        "kind = torch.bfloat16 if ok else torch.float16\n",
        "def f():\n    cap = torch.cuda.get_device_capability()\n    if cap < (8, 0):\n        return torch.float16\n"
        "    return torch.bfloat16\n",
    ],
)
def test_a_name_or_what_follows_a_return_decides_for_bfloat16_too(migrate, code):
    assert "torch.npu.is_bf16_supported()" in migrate(f"import torch\n{code}")
    assert "is_bf16_supported" not in migrate(f"import torch\n{code.replace('bfloat16', 'float32')}")


@pytest.mark.parametrize(("other", "stays"), [("'torch'", True), ("'cpu'", False), ("None", False)])
def test_a_choice_of_code_by_the_device_of_a_tensor_stays(migrate, other, stays):
    text = f"import torch\nkind = 'cuda' if x.is_cuda else {other}\n"
    assert ("x.is_cuda" in migrate(text)) is stays
