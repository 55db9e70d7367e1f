"""Code for CUDA that a project's own functions, members and values keep from NPUs, and refusals in an `else`."""

import pytest

KINDS = "from enum import Enum\nclass Kind(Enum):\n    MULTI_GPU = 1\n    {} = 2\n"
REQUIRED = "def require_cuda(f): ...\ndef require_{0}(f):\n    return f if torch.{0}.is_available() else None\n"
NAMED = """def name():
    if torch.{0}.is_available():
        return "{0}"
    return "gpu" if torch.cuda.is_available() else "cpu"
def device():
    found = name()
    return torch.zeros(2, device="cuda" if found == "gpu" else found)
"""
REFUSED = """def place(model):
    if torch.cuda.is_available():
        model.to(torch.cuda.current_device())
    elif torch.xpu.is_available():
        model.to(torch.xpu.current_device())
    else:
        raise RuntimeError("A GPU is needed {}.")
"""
CHOSEN = """def pick():
    name = None
    try:
        import torch_npu
        name = "npu"
    except ImportError:
        pass
    if name is None{}
        if torch.cuda.device_count() > 0:
            name = "cuda"
    return name
"""
PAIRS = [
    (
        KINDS,
        "def f(kind):\n    if kind == Kind.MULTI_GPU:\n        torch.cuda.synchronize()\n",
        "MULTI_NPU",
        "MULTI_XPU",
    ),
    (
        REQUIRED,
        "@require_cuda\ndef test_a():\n    torch.cuda.synchronize()\n@require_{0}\ndef test_b(): ...\n",
        "npu",
        "xpu",
    ),
    (NAMED, "", "npu", "xpu"),
    (REFUSED, "", "for quantization", "for training"),
]


@pytest.mark.parametrize(("shared", "code", "stays", "edited"), PAIRS)
def test_what_the_project_has_twice_stays(project, shared, code, stays, edited):
    for word in (stays, edited):
        text = "import torch\n" + shared.format(word) + code.format(word)
        content = (project({"a.py": text})["a.py"].content or text.encode()).decode()
        uses = ("torch.npu.synchronize", 'device="npu" if', "torch.npu.current_device")
        assert any(each in content for each in uses) is (word == edited)


def test_a_name_that_an_import_gives_the_npu_stays_cudas(project):
    content = project({"a.py": "import torch\n" + CHOSEN.format(":")})["a.py"].content
    assert content is None


def test_what_getattr_falls_back_to_is_not_for_npus(project):
    code = "import torch\ndef module(name):\n    return getattr(torch, name, torch.cuda)\n"
    assert project({"a.py": code})["a.py"].content is None
    assert project({"a.py": code.replace("getattr(torch", "getattr(other")})["a.py"].content is not None


@pytest.mark.parametrize(("other", "stays"), [("MULTI_NPU", True), ("MULTI_XPU", False)])
def test_a_kind_stays_in_a_project_that_has_the_one_for_npus(project, other, stays):
    kinds = f"TYPES = ['DEEPSPEED', 'MULTI_GPU']\nALL = TYPES + ['{other}', 'MULTI_CPU']\n"
    code = "def f(config):\n    assert config.distributed_type == 'MULTI_GPU'\n"
    assert (project({"a.py": kinds, "b.py": code})["b.py"].content is None) is stays


@pytest.mark.parametrize(("needed", "stays"), [("for quantization", True), ("for training", False)])
def test_a_refusal_without_any_of_several_devices_may_be_cudas(project, needed, stays):
    test = "if not (torch.cuda.is_available() or torch.xpu.is_available()):"
    code = f"import torch\n{test}\n    raise OSError('A GPU is needed {needed}.')\n"
    assert (project({"a.py": code})["a.py"].content is None) is stays


@pytest.mark.parametrize(("test", "knows"), [("torch.npu.is_available()", True), ("torch.xpu.is_available()", False)])
def test_a_file_with_code_for_npus_is_marked(project, test, knows):
    code = f"import torch  # npu\nif {test}:\n    f()\nelse:\n    torch.cuda.synchronize()\n"
    assert ("knows-npus" in project({"a.py": code})["a.py"].traits) is knows


def test_a_question_of_the_projects_own_may_be_one_of_several(project):
    code = (
        "import torch\ndef is_cuda_there():\n    return torch.cuda.is_available()\n"
        "def is_npu_there():\n    return torch.npu.is_available()\n"
        "def f(least):\n    if least and is_cuda_there():\n        torch.cuda.empty_cache()\n    is_npu_there()\n"
    )
    assert project({"a.py": code})["a.py"].content is None


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        ("d = 'cuda' if (k == Kind.XLA and wide) else x.device.type\nwith torch.autocast(d): ...\n", True),
        ("import torch_xla\na = torch_xla.runtime.device_type() in ['GPU', 'CUDA']\n", True),
        ("if is_rocm_available():\n    torch.cuda.empty_cache()\n", True),
        ("if torch.xpu.is_available() and n:\n    x.to('cuda')\n", True),
        ("if x.device.type == 'mps':\n    x = x.to('cuda')\n", True),
        ("if not torch.backends.mps.is_available():\n    x.to('cuda')\n", False),
        ("if is_xpu or n:\n    x.to('cuda')\n", False),
        ("if use_tpu:\n    a = 1\nelse:\n    x.to('cuda')\n", False),
        ("if amdgpu:\n    x.to('cuda')\n", False),
        ("if n and xpu.is_gpu():\n    x.to('cuda')\n", False),
        ("if xpu.number is not None:\n    x.to('cuda')\n", False),
        ("if torch.cuda.is_available():\n    n = 1\n    if hip:\n        a()\n    else: import pynvml\n", True),
        ("if torch.cuda.is_available():\n    n = 1\n    if n:\n        import pynvml\n", False),
        ("if torch.cuda.is_available():\n    n = 1\n    import pynvml\n    x.to('cuda')\n", False),
        ("from flash_attn import flash_attn_func as f\n@op('f', device_types='cuda')\ndef g(q): return f(q)\n", True),
    ],
)  # fmt: skip
def test_code_for_other_devices_and_their_packages_stays(migrate, code, stays):
    assert ("npu" not in migrate(f"import torch\n{code}")) is stays


HALVES = "def is_cuda_there(): return torch.cuda.is_available()\ndef is_npu_there(): return hasattr(torch, 'npu')\n"


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        (f"{HALVES}L = ((is_cuda_there, 'cuda'), (is_npu_there, 'npu'))\ntorch.zeros(2, device=L[0][1])\n", True),
        ("L = ((gpu_on, 'cuda'), (xpu_on, 'xpu'))\ntorch.zeros(2, device=L[0][1])\n", False),
        ("D = {'kernels/flash-attn2': ('cuda', 'xpu')}\ntorch.zeros(2, device=D['x'][0])\n", True),
        ("D = {'kernels/norm': ('cuda', 'xpu')}\ntorch.zeros(2, device=D['x'][0])\n", False),
        ("d = 'cuda' if torch.cuda.is_available() and 'CUDAExecutionProvider' in found else 'cpu'\n", True),
        ("if p in ('CUDAExecutionProvider', 'TensorrtExecutionProvider'):\n    d = torch.device('cuda', 0)\n", True),
        ("if p == 'CPUExecutionProvider':\n    d = torch.device('cuda', 0)\n", False),
    ],
)
def test_devices_of_what_is_built_for_cuda_stay(project, code, stays):
    text = (project({"a.py": f"import torch\n{code}"})["a.py"].content or b"").decode()
    assert ("'npu'" in text.replace("there, 'npu'", "").replace("torch, 'npu'", "")) is not stays


@pytest.mark.parametrize(
    ("importer", "more", "stays"),
    [("import bridge\n", "", True), ("import other\n", "", False), ("import bridge\n", "x.cuda()\n", False)],
)
def test_a_file_that_gives_cuda_what_another_device_has_stays(project, importer, more, stays):
    bridge = "import torch\ndef f():\n    torch.cuda.Event = torch.xpu.Event\n"
    bridge += "def is_cuda(d):\n    return d.device.type == 'cuda'\n"
    found = project({"bridge.py": bridge + more, "a.py": importer + "bridge.is_cuda(x)\n"})["bridge.py"].content
    assert (found is None) is stays


@pytest.mark.parametrize(("other", "stays"), [("npu", True), ("xpu", False)])
def test_a_device_that_one_file_compares_with_npu_is_cudas_in_others(project, other, stays):
    found = project(
        {
            "device.py": "import torch\ndef get_device():\n    device = torch.accelerator.current_accelerator().type\n"
            f"    if device == '{other}':\n        import plugin\n    return device\n",
            "loss.py": "from device import get_device\nif get_device() == 'cuda':\n    from fast import loss\n",
        }
    )
    assert (found["loss.py"].content is None) is stays


def test_bundles_of_ray_that_are_all_of_npus_are_for_them(migrate):
    code = (
        "import ray\ndef f(bundles):\n    if all('GPU' in each for each in bundles):\n        return 'GPU'\n"
        "    elif all('NPU' in each for each in bundles):\n        return 'NPU'\n"
        "    elif any('GPU' in each for each in bundles) or any('NPU' in each for each in bundles):\n        raise E\n"
    )
    assert migrate(code) == code


def test_each_tensor_has_a_device_of_its_own(project):
    code = (
        "import torch\ndef f():\n    x = torch.zeros(2)\n    return x.device.type == 'npu'\n"
        "def g():\n    y = torch.zeros(3)\n    return y.device.type == 'cuda'\n"
    )
    assert b"y.device.type == 'npu'" in (project({"a.py": code})["a.py"].content or b"")


def test_what_is_done_for_nccl_beside_hccl_stays(project):
    code = (
        "import torch.distributed as dist\ndef f(kind, wide):\n    backend = 'hccl' if kind else 'nccl'\n"
        "    if backend == 'nccl' and wide:\n        backend = 'cuda:nccl,cpu:gloo'\n"
        "    dist.init_process_group(backend)\n"
    )
    assert b"cuda:nccl" in (project({"a.py": code})["a.py"].content or code.encode())


def test_a_refusal_beside_a_chosen_device_is_no_part_of_a_library(migrate):
    code = (
        "import torch\ndef f(d):\n    if torch.cuda.is_available():\n        d = torch.device('cuda')\n"
        "    else:\n        raise RuntimeError('no FP16 quantization on the CPU')\n    return d\n"
    )
    assert "torch.device('npu')" in migrate(code)
