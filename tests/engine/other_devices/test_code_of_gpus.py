"""Conditions that ask how capable a GPU is."""


def test_a_flag_that_comes_before_a_capability_stays_cudas(project):
    code = """import torch
from other import backend
is_nvidia = backend() == "cuda"
is_hopper = is_nvidia and torch.cuda.get_device_capability()[0] >= 9
"""
    migrated = project({"pkg/__init__.py": "", "pkg/a.py": code})["pkg/a.py"]
    assert migrated.content is None
    assert migrated.findings


def test_code_that_switches_off_what_only_cuda_has_does_so_on_an_npu_too(project):
    code = "import torch\ndef f(device, fp8):\n    if device != 'cuda':\n        fp8 = False\n    return fp8\n"
    assert project({"a.py": code})["a.py"].content is None
    for other in (code.replace("fp8", "amp"), code.replace("fp8 = False", "fp8 = amp = False")):
        assert b"device != 'npu'" in project({"a.py": other})["a.py"].content


def test_a_capability_that_decides_about_bfloat16_is_no_code_of_cudas_own(project):
    code = """import torch
def f():
    if torch.cuda.is_available():
        return torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float32
    return torch.float32
"""
    text = project({"a.py": code})["a.py"].content.decode()
    assert "if torch.npu.is_available():" in text
    assert "torch.bfloat16 if torch.npu.is_bf16_supported() else" in text


def test_nothing_is_edited_under_a_condition_that_stays(project):
    code = """import torch
def show():
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        print(torch.cuda.get_device_name(0), major, minor)
"""
    migrated = project({"a.py": code})["a.py"]
    assert migrated.content is None
    assert [finding.span.start_line for finding in migrated.findings] == [3]


def test_a_class_for_gpus_beside_one_for_npus_stays(project):
    files = {
        "build.py": "import torch\nclass Base: pass\nclass GpuBuild(Base):\n    n = torch.cuda.device_count()\n",
        "more.py": "import torch\nfrom build import GpuBuild\nclass A(GpuBuild):\n    n = torch.cuda.device_count()\n",
        "net.py": "import torch\nclass GpuNet(torch.nn.Module):\n    n = torch.cuda.device_count()\n",
        "npu_net.py": "import torch\nclass NpuNet(torch.nn.Module): pass\n",
        "other.py": "import torch\nfrom build import Base\nclass GpuOther(Base):\n    n = torch.cuda.device_count()\n",
        "npu.py": "from build import Base\nclass NpuBuild(Base):\n    n = 1\n",
    }
    migrated = project(files)
    assert {path for path, each in migrated.items() if each.content is None} == {"build.py", "npu.py", "npu_net.py"}


def test_code_under_the_projects_own_question_for_cuda_stays_beside_one_for_the_npu(project):
    checks = "import torch\ndef is_cuda_there():\n    return torch.cuda.is_available()\n"
    both = checks + "def is_npu_there():\n    return torch.npu.is_available()\n"
    use = (
        "import torch\nfrom checks import is_cuda_there, is_npu_there\ndef state():\n    found = {}\n"
        "    if is_npu_there():\n        found['n'] = torch.npu.get_rng_state()\n    print(found)\n"
        "    if is_cuda_there():\n        found['c'] = torch.cuda.get_rng_state()\n    return found\n"
    )
    file = project({"checks.py": both, "a.py": use})["a.py"]
    assert file.content is None
    assert [each.severity for each in file.findings] == ["note"]
    assert project({"checks.py": checks, "a.py": use})["a.py"].content is not None


def test_code_for_cudas_own_build_stays_under_its_condition(project):
    code = (
        "import torch\ndef move(net):\n    if torch.cuda.is_available() and torch.version.cuda:\n        net.cuda()\n"
    )
    file = project({"a.py": code})["a.py"]
    assert file.content is None
    assert [each.severity for each in file.findings] == ["change"]


def test_a_device_that_cudas_own_build_chooses_is_a_change(project):
    file = project({"a.py": "import torch\nnet.to('cuda' if torch.version.cuda else 'cpu')\n"})["a.py"]
    assert file.content is None
    assert [(each.api, each.severity) for each in file.findings] == [("torch.version.cuda", "change")]


def test_a_kernel_that_a_program_can_do_without_is_for_cuda(project):
    code = """import torch
def median(x, width):
    if x.is_cuda:
        try:
            from ops import median_cuda
            result = median_cuda(x, width)[..., :9]
            return result
        except (RuntimeError, ImportError):
            print("slower")
    return x.sort()[0]
"""
    ops = "import torch\nimport triton\ndef median_cuda(x, width):\n    return x\n"
    assert project({"a.py": code, "ops.py": ops})["a.py"].content is None
    without = code.replace('print("slower")', "raise")
    assert project({"a.py": without, "ops.py": ops})["a.py"].content is not None


def test_nothing_is_edited_where_pytorch_is_built_for_cuda(project):
    code = "import torch\nif {}:\n    print(torch.cuda.get_device_name(0))\n"
    for test in ("torch.version.cuda is not None", "ready() and torch.version.cuda"):
        file = project({"a.py": code.format(test)})["a.py"]
        assert file.content is None
        assert [each.span.start_line for each in file.findings] == [2]
    for test in ("torch.version.cuda is None", "ready() or torch.version.cuda"):
        assert project({"a.py": code.format(test)})["a.py"].content is not None


def test_a_name_stays_cudas_only_where_a_condition_gives_it_npu(project):
    code = "import torch\ndef pick(is_npu):\n    name = 'cpu'\n    if {}:\n        name = 'npu'\n{}    return name\n"
    cuda = "    if torch.cuda.is_available():\n        name = 'cuda'\n"
    assert project({"a.py": code.format("is_npu", cuda)})["a.py"].content is None
    assert project({"a.py": code.format("pick(3) == 'cpu'", cuda)})["a.py"].content is not None


def test_support_for_cuda_is_no_capability(project):
    code = "import torch\nfrom checks import has_cuda_support\nif torch.cuda.is_available() and has_cuda_support():\n"
    assert project({"a.py": f"{code}    torch.cuda.synchronize()\n"})["a.py"].content is not None


def test_a_condition_stays_where_what_runs_reads_the_version_of_cuda(project):
    code = (
        "import torch\ndef ready():\n    good = True\n    if torch.cuda.is_available():\n        {}\n    return good\n"
    )
    file = project({"a.py": code.format("good = int(torch.version.cuda.split('.')[0]) > 11")})["a.py"]
    assert file.content is None and [each.span.start_line for each in file.findings] == [4, 5]
    for line in ("good = bool(torch.version.cuda)", "v = torch.version.cuda.split('.'); torch.ones(1).cuda()"):
        assert project({"a.py": code.format(line)})["a.py"].content is not None


def test_a_device_that_only_questions_are_given_is_no_use_of_it(project):
    code = """import torch
def capability():
    if torch.cuda.is_available():
        device = torch.device("cuda")
        found = torch.cuda.get_device_capability(device)
        return float(f"{found[0]}.{found[1]}")
    return None
"""
    assert project({"a.py": code})["a.py"].content is None
    assert (
        project(
            {"a.py": code.replace("        return float", "        torch.ones(1, device=device)\n        return float")}
        )["a.py"].content
        is not None
    )


def test_a_choice_of_two_values_by_the_build_for_cuda_is_read(project):
    file = project(
        {"a.py": "import torch\nk = 1 if torch.version.cuda is not None else 0\nx = torch.ones(1).cuda()\n"}
    )["a.py"]
    assert file.failure is None and b".npu()" in file.content


def test_what_says_that_kernels_are_there_keeps_its_condition(project):
    code = """import torch
try:
    from mamba_ssm import scan
except ImportError:
    scan = None
fast = {value}
def f(x):
    if fast and "cuda" in x.device.type:
        return kernels(x)
    return x.cumsum(0)
"""
    for value in ("all((scan, 1))", "scan is not None"):
        migrated = project({"a.py": code.format(value=value)})["a.py"]
        assert migrated.content is None
        assert any("stays as it is" in finding.message for finding in migrated.findings)
    assert b'"npu" in x' in project({"a.py": code.format(value="x is not None")})["a.py"].content


def test_a_kernel_behind_two_questions_stays_cudas(project):
    body = "        half = x.dtype == torch.half\n        y = Fused.apply(x)\n        return y.half() if half else y\n"
    code = f"""import torch
try:
    from . import _C
except ImportError:
    pass
class Fused(torch.autograd.Function):
    def forward(ctx, x):
        return _C.sample(x)
def f(x):
    if torch.cuda.is_available() and x.is_cuda:
{body}    return x
"""
    assert project({"pkg/__init__.py": "", "pkg/a.py": code})["pkg/a.py"].content is None
    own = code.replace("_C.sample(x)", "x * 2")
    assert b"x.is_npu" in project({"pkg/__init__.py": "", "pkg/a.py": own})["pkg/a.py"].content


def test_a_refusal_before_a_kernel_stays_cudas_but_for_other_ways(project):
    head = "import torch\nfrom . import _ext\ndef f(x, fast):\n    if not x.is_cuda:\n        raise TypeError(x)\n"
    uses = {
        "    y = x.new_empty(2)\n    if fast:\n        y = y + 1\n        _ext.run(x, y)\n    return y\n": False,
        "    if fast:\n        return _ext.run(x)\n    return x * 2\n": True,
        "    if fast:\n        y = _ext.run(x)\n    else:\n        y = x * 2\n    return y\n": True,
    }
    for use, is_changed in uses.items():
        found = project({"pkg/__init__.py": "", "pkg/a.py": head + use})["pkg/a.py"]
        assert (found.content is not None) is is_changed
        assert found.findings or is_changed


def test_a_check_whose_answer_nobody_takes_decides_nothing(project):
    code = "import torch\nfrom .links import check_nvlink\nif torch.cuda.is_available():\n    check_nvlink()\n"
    assert project({"p/__init__.py": "", "p/a.py": code})["p/a.py"].content is not None
    tested = code.replace("    check_nvlink()", "    if not check_nvlink():\n        raise OSError")
    assert project({"p/__init__.py": "", "p/a.py": tested})["p/a.py"].content is None


def test_what_follows_a_way_without_kernels_stays_cudas_where_each_way_calls_one(project):
    code = """import importlib
import torch
norm_cuda = None
class Norm(torch.autograd.Function):
    def __init__(self, eps):
        global norm_cuda
        norm_cuda = importlib.import_module("norm_cuda")
    def forward(self, x):
        return norm_cuda.run(x)
def f(x, affine):
    if not x.is_cuda:
        return torch.layer_norm(x, (2,))
    if affine:
        return Norm(1)(x)
    else:
        return Norm(2)(x)
"""
    assert project({"pkg/__init__.py": "", "pkg/a.py": code})["pkg/a.py"].content is None
    other = code.replace("return Norm(2)(x)", "return x * 2")
    assert b"is_npu" in project({"pkg/__init__.py": "", "pkg/a.py": other})["pkg/a.py"].content
