"""Programs that have code of their own for the NPU keep what they do elsewhere."""

import pytest

from gpu2npu.engine.other_devices.device_pairs import has_npu_file

UNCHANGED = [
    "known = [('cuda', torch.cuda.is_available), ('npu', lambda: torch.npu.is_available())]\n",
    "table = dict(cuda=torch.cuda, npu=torch.npu)\n",
    "n = torch.cuda.device_count() or torch.npu.device_count()\n",
    "def f():\n    if torch.cuda.is_available():\n        return 'cuda'\n    try:\n        import torch_npu\n"
    "        return 'npu'\n    except ImportError:\n        return 'cpu'\n",
    "def f():\n    if torch.cuda.is_available():\n        return 'cuda'\n    if is_npu_available():\n"
    "        return 'npu'\n    return 'cpu'\n",
    "device = torch.device('cuda' if ok else 'npu')\n",
    "device = torch.device('cuda' if torch.cuda.is_available() else 'npu')\n",
    "device = 'cuda' if ok else 'npu' if fast else 'cpu'\n",
    "has = torch.cuda.is_available()\nif has:\n    d = 'cuda'\nelif is_npu_available():\n    d = 'npu'\n",
    "has = torch.cuda.is_available()\nd = torch.device('cuda' if has else 'npu' if is_npu_available() else 'cpu')\n",
    "d = 'cuda' if torch.cuda.is_available() else 'npu' if is_npu_available() else 'cpu'\nx.to(d)\n",
    "has = torch.cuda.is_available()\nkind = torch.cuda if has else torch.npu\nif has:\n    x.cuda()\n",
    "kind = torch.cuda if kind == 'cuda' else torch.npu\n",
    "def f():\n    if torch.cuda.is_available():\n        return 'cuda:0'\n    return 'npu:0'\n",
    "init_process_group('nccl' if is_wide else 'hccl')\n",
    "match device.type:\n    case 'npu' | 'xpu': f()\n    case 'cuda': torch.cuda.synchronize()\n    case _: g()\n",
    "from accelerate import DistributedType as D\nmany = kind in (D.MULTI_GPU, D.MULTI_NPU)\n",
    "modules = [torch.cuda, torch.npu]\n",
    "own = skipUnless(is_npu_available(), '')\nif device != 'cuda':\n    one = skip(reason=f'needs {n} GPUs')\n",
    "one = skipUnless(torch.cuda.device_count() > n, f'needs {n} GPUs')\nown = skipIf(not is_npu_available(), '')\n",
    "there = [torch.cuda.is_available(), torch.npu.is_available()]\n",
    "show({'CUDA': torch.cuda.is_available(), 'NPU': is_torch_npu_available()})\n",
    "show(cuda=torch.cuda.device_count(), npu=torch_npu.npu.device_count())\n",
    "print('CUDA', torch.cuda.is_available())\nprint('other')\nprint(f'NPU {is_npu()}')\n",
    "modules = {'cuda': torch.cuda, 'npu': getattr(torch, 'npu', None)}\n",
    "def f():\n    try:\n        import torch_npu\n        return 'npu'\n    except ImportError:\n        pass\n"
    "    return torch.device('cuda')\n",
    "try:\n    import torch_npu\n    device = 'npu'\nexcept ImportError:\n    device = 'cuda'\n",
    "if kind == 'npu':\n    torch.npu.empty_cache()\nelse:\n    torch.cuda.empty_cache()\n",
    "if kind == 'cuda':\n    torch.cuda.empty_cache()\nelif kind == 'npu':\n    torch.npu.empty_cache()\n",
    "if torch.cuda.is_available():\n    n = 1\nelif hasattr(torch, 'npu') and torch.npu.is_available():\n    n = 2\n",
    "if not is_npu_available():\n    torch.cuda.empty_cache()\n",
    "if torch.cuda.is_available():\n    show(torch.cuda.device_count())\nif is_npu:\n    f(torch.npu.device_count())\n",
    "if kind != 'npu':\n    torch.cuda.empty_cache()\n",
    "def f():\n    if is_torch_npu_available():\n        return 'npu'\n    return torch.cuda.current_device()\n",
    "if 'npu' not in kinds:\n    torch.cuda.empty_cache()\n",
    "def f():\n  try:\n    import torch_npu\n  except ImportError:\n    pass\n  else:\n    return 'npu'\n"
    "  return torch.device('cuda')\n",
    "if backend == Backend.HCCL:\n    f()\nelse:\n    torch.cuda.empty_cache()\n",
    "if is_available('npu'):\n    f()\nelse:\n    torch.cuda.empty_cache()\n",
    "n = torch.npu.device_count() if is_npu else torch.cuda.device_count()\n",
    "torch.cuda.empty_cache()\nif kind == 'xpu':\n    f()\nif kind == 'npu':\n    torch.npu.empty_cache()\n",
    "if device == 'npu':\n    f()\nif (device == 'cuda' and n == 1) or device in ('mps', 'npu'):\n    f()\n",
    "class A:\n  def f(self):\n    return self.device == 'npu'\n  def g(self):\n    return self.device == 'cuda'\n",
    "if device in ('npu', 'xpu'):\n    f()\nif device == 'cuda' and n:\n    torch.cuda.empty_cache()\n",
    "if device == 'npu':\n    f()\nx = 0 if device != 'cuda' else torch.cuda.device_count()\n",
    "def check(device):\n    return device != 'cuda'\ndef f(device):\n    if device == 'npu':\n        check(device)\n",
    "def check(n, where):\n    return where != 'cuda'\nif device == 'npu':\n    check(1, device)\n    show(1, n)\n",
    "def check(n, where):\n    return where != 'cuda'\nif device == 'npu':\n    check(where=device, n=1)\n",
    "a = device.startswith('cuda') and not torch.cuda.is_available()\nb = device.startswith('npu') and not has_npu()\n",
    "if device.startswith(('npu:', 'xpu')):\n    f()\nif device.startswith('cuda:'):\n    torch.cuda.empty_cache()\n",
    "if device == 'npu':\n    f()\nx = device == 'cuda' and torch.cuda.is_available()\n",
    "if str(device).startswith('npu'):\n    f()\nif str(device).startswith('cuda'):\n    torch.cuda.synchronize()\n",
    "if device.type == 'npu':\n    f()\nif str(device).lower().startswith('cuda'):\n    torch.cuda.synchronize()\n",
    "if str(x.device).startswith('npu'):\n    f()\nif x.device.type == 'cuda':\n    torch.cuda.synchronize()\n",
    "is_npu = device == 'npu'\nis_cuda = device == 'cuda'\nif is_cuda and n:\n    torch.cuda.synchronize()\n",
    "is_npu = device == 'npu'\nelsewhere = device != 'cuda'\nif not elsewhere:\n    torch.cuda.synchronize()\n",
    "class A:\n  def __init__(self, device):\n    self.is_npu = device == 'npu'\n    self.on = device == 'cuda'\n"
    "  def f(self):\n    return torch.cuda.device_count() if self.on else 0\n",
    "is_npu = device == 'npu'\non = False\nif wide:\n    on = device == 'cuda'\nif on:\n    torch.cuda.synchronize()\n",
    "a = device == 'npu'\nb = device != 'cuda' or torch.cuda.is_available()\n",
    "def f(device):\n    if device == 'npu':\n        device = 'xpu'\n    if device == 'cuda':\n        torch.cuda\n",
    "g = lambda device: device == 'cuda'\nif device == 'npu':\n  g(device)\n",
    "a = device == 'npu'\nb = on\non = b and device == 'cuda'\nif on:\n    torch.cuda.synchronize()\n",
    "if device.startswith('npu'):\n    s = torch.npu.current_stream()\nelse:\n    s = torch.cuda.ExternalStream(0)\n",
    "match kind:\n    case 'npu' | 'xpu': f()\n    case _: torch.cuda.empty_cache()\n",
    "def f():\n    try:\n        import os\n        import torch_npu\n        return 'x'\n    except ImportError:\n"
    "        pass\n    return torch.device('cuda')\n",
    "def f():\n    if is_npu:\n        g()\n        return 1\n    torch.cuda.init()\n",
    "if wide:\n    if is_npu:\n        f()\n    else:\n        torch.cuda.init()\n",
    "if is_mps:\n    f()\nelif is_npu:\n    g()\nelif torch.cuda.is_available():\n    torch.cuda.init()\n",
    "if backend == 'hccl':\n    f()\nelif backend == 'nccl':\n    f(torch.cuda.current_device())\n",
    "if is_hccl_backend:\n    f()\nelse:\n    x = torch.device('cuda')\n",
    "if is_npu:\n    d = 'npu'\nf()\nif torch.cuda.is_available():\n    d = 'cuda'\n",
    "many = (is_npu() and torch.npu.device_count()) or (torch.cuda.is_available() and torch.cuda.device_count())\n",
    "def f(d):\n    a = d in ('gpu', 'npu')\n    if d == 'gpu':\n        d = 'cuda'\n    f(torch.device(d), a)\n",
    "if kind == Kind.NPU:\n    f()\nelse:\n    torch.cuda.empty_cache()\n",
    "if Kind.NPU != kind:\n    torch.cuda.empty_cache()\n",
    "if kind is not Kind.NPU:\n    torch.cuda.empty_cache()\n",
    "if kind is Kind.NPU:\n    f()\nelse:\n    torch.cuda.empty_cache()\n",
    "HAS_CUDA = torch.cuda.is_available()\nHAS_NPU = torch.npu.is_available()\n",
    "import os\nvisible = {'GPU': 'CUDA_VISIBLE_DEVICES', 'NPU': 'ASCEND_RT_VISIBLE_DEVICES'}\n",
    "def f(name):  # or npu\n    try:\n        return getattr(torch, name)\n    except AttributeError:\n"
    "        return torch.cuda\n",
    "try:\n    HAS_CUDA = torch.cuda.is_available()\nexcept Exception:\n    HAS_CUDA = False\n"
    "try:\n    HAS_NPU = torch.npu.is_available()\nexcept Exception:\n    HAS_NPU = False\n",
    "CUDA_0 = torch.device('cuda:0')\nNPU_0 = torch.device('npu:0')\n",
    "ROCM = torch.device('cuda')\nNPU = torch.device('npu')\n",
    "def f():\n    n_gpu = torch.cuda.device_count()\n    n_npu = torch.npu.device_count()\n",
    "def has_cuda():\n    return torch.cuda.is_available()\ndef has_npu():\n    return torch.npu.is_available()\n",
    "class Net(torch.nn.Module):\n    def cuda(self):\n        return super().cuda()\n"
    "    def npu(self):\n        return super().npu()\n",
    "def f():\n  if torch.cuda.is_available():\n    return torch.device('cuda')\n  if is_mps:\n    return 0\n"
    "  if HAS_NPU and n:\n    return torch.device('npu')\n",
    "if wide and torch.cuda.is_available():\n    add(torch.device('cuda'))\nif is_mps:\n    f()\n"
    "if wide and is_npu:\n    add(torch.device('npu'))\n",
    "if is_npu:\n    backend = 'hccl'\nif torch.cuda.is_available():\n    backend = 'nccl'\n",
    "lib.impl('op', run, 'CUDA')\nlib.impl('op', other, 'PrivateUse1')\n",
    "lib.impl('op', run, dispatch_key='AutogradCUDA')\nlib.impl('op', run, 'AutogradPrivateUse1')\n",
    "@torch.library.register_kernel('a::b', 'cuda')\ndef f(x): ...\n@torch.library.register_kernel('a::b', 'npu')\n"
    "def g(x): ...\n",
]
CHANGED = {
    "show(torch.cuda.device_count(), torch.npu.is_available())\n": "show(torch.npu.device_count(), ",
    "pair = [x.cuda(), y.npu()]\n": "[x.npu(), y.npu()]",
    "print(torch.cuda.is_available())\nlog(is_npu())\n": "print(torch.npu.is_available())",
    "match kind:\n    case 'npu' if wide: f()\n    case _: torch.cuda.empty_cache()\n": "torch.npu.empty_cache()\n",
    "match key:\n    case ('npu', 1): f()\n    case (_, n): torch.cuda.empty_cache()\n": "torch.npu.empty_cache()\n",
    "modules = {'npu': torch.npu, 'xpu': torch.xpu}\nx.cuda()\n": "x.npu()",
    "def f(name):  # or npu\n    try:\n        return getattr(os, name)\n    except AttributeError:\n"
    "        return torch.cuda\n": "        return torch.npu\n",
    "modules = {'cuda': torch.cuda, 'xpu': torch.xpu}  # no npu\n": "'npu': torch.npu, 'xpu'",
    "def f():\n    try:\n        import torch_npu\n    except ImportError:\n        pass\n"
    "    return torch.device('cuda')\n": "torch.device('npu')",
    "def f():\n    try:\n        import other\n        return 'x'\n    except ImportError:\n        pass\n"
    "    return torch.device('cuda')  # no npu\n": "torch.device('npu')",
    "from accelerate import DistributedType as D\nx = kind in (D.MULTI_GPU, D.NO)  # no npu\n": "(D.MULTI_NPU, D.NO)",
    "def f():\n    try:\n        import torch_npu\n        torch.cuda.init()\n        return 1\n    except E:\n"
    "        pass\n": "        torch.npu.init()\n",
    "def f():\n    torch.cuda.init()\n    try:\n        import torch_npu\n        return 1\n    except E:\n"
    "        pass\n": "    torch.npu.init()\n",
    "def f():\n    if is_npu:\n        torch.cuda.init()\n        return 1\n": "        torch.npu.init()\n",
    "if is_mps:\n    f()\nelif is_npu:\n    torch.cuda.init()\nelse:\n    f()\n": "    torch.npu.init()\n",
    "if use_npu or use_cuda:\n    pass\nelse:\n    torch.cuda.empty_cache()\n": "    torch.npu.empty_cache()\n",
    "if amp and is_npu:\n    pass\nelse:\n    torch.cuda.empty_cache()\n": "    torch.npu.empty_cache()\n",
    "if is_npu:\n    torch.cuda.empty_cache()\n": "    torch.npu.empty_cache()\n",
    "def f():\n    if is_npu:\n        x = 1\n    torch.cuda.empty_cache()\n": "    torch.npu.empty_cache()\n",
    "if device == 'npu':\n    f()\ndef g(device):\n    return device == 'cuda'\n": "return device == 'npu'",
    "def g(device):\n  return device == 'cuda'\nif device == 'npu':\n  g(n)\n": "return device == 'npu'",
    "def g():\n  device = pick()\n  return device == 'cuda'\na = kind == 'npu'\n": "return device == 'npu'",
    "def g(x):\n  return x.device == 'cuda'\nif device == 'npu':\n  g(device)\n": "return x.device == 'npu'",
    "def g(device):\n  device = device or pick()\n  return device == 'cuda'\nif device == 'npu':\n  g(device)\n": (
        "return device == 'npu'"
    ),
    "def g(device):\n  return device == 'cuda'\nif device == 'npu':\n  g(device), g(n)\n": "return device == 'npu'",
    "def g(device=n):\n  return device == 'cuda'\nif device == 'npu':\n  g(device), g()\n": "return device == 'npu'",
    "def g(n, device):\n  return device == 'cuda'\nif device == 'npu':\n  g(device, n)\n": "return device == 'npu'",
    "if device == 'npu':\n    f()\nif kind == 'cuda':\n    torch.cuda.empty_cache()\n": "    torch.npu.empty_cache()\n",
    "a = device.startswith('npu')\nb = other_device.startswith('cuda')\n": "other_device.startswith('npu')",
    "a = device.startswith('npu')\nb = device.startswith('cuda') or torch.cuda.is_available()\n": "torch.npu.i",
    "a = device == 'npu'\nb = torch.cuda.is_available() and device == 'cuda'\n": "b = torch.npu.is_available() and",
    "a = device == 'npu'\nb = device != 'cuda' and torch.cuda.is_available()\n": "and torch.npu.is_available()",
    "if device == 'npu':\n    f()\nif device != 'cuda':\n    torch.cuda.empty_cache()\n": "torch.npu.empty_cache()\n",
    "if str(device).startswith('npu'):\n    f()\nx = str(other_device).startswith('cuda')\n": "startswith('npu')\n",
    "def f(devices):\n    for device in devices:\n        if device == 'npu': f()\n    device = 'cuda'\n"
    "    if device == 'cuda':\n        torch.cuda.synchronize()\n": "    if device == 'npu':\n        torch.npu.sync",
    "a = device == 'npu'\non = n > 1\non = device == 'cuda'\nif on:\n    torch.cuda.init()\n": "on = device == 'npu'",
    "a.npu = device == 'npu'\na.on = device == 'cuda'\nif b.on:\n    torch.cuda.init()\n": "    torch.npu.init()",
    "a, b = device == 'npu', device == 'cuda'\nif b:\n    torch.cuda.init()\n": "device == 'npu', device == 'npu'",
    "HAS_CUDA = torch.cuda.is_available()\nHAS_NPU = False\n": "HAS_CUDA = torch.npu.is_available()",
    "def f():\n    GPU = torch.device('cuda')\nNPU = torch.device('npu')\n": "GPU = torch.device('npu')",
    "CUDA = torch.cuda.is_available()\nNPU = is_npu()\nplace = 'cuda' if CUDA else 'cpu'\n": "CUDA = torch.npu.is",
    "def to_gpu(x):\n    return x.cuda()\ndef to_npu(x):\n    raise ValueError\nto_gpu(net)\n": "    return x.npu()",
    "if fused_npu:\n    raise E\nif torch.cuda.device_count() > 8:\n    raise F\n": "if torch.npu.device_count()",
    "def f():\n  if torch.cuda.device_count() == 0:\n    return\n  if is_npu:\n    return\n": "torch.npu.device_c",
    "def f():\n  if torch.cuda.device_count() < 2:\n    return\n  if is_npu:\n    return\n": "torch.npu.device_count()",
    "lib.impl('a', run, 'CUDA')\nlib.impl('b', other, 'PrivateUse1')\n": "lib.impl('a', run, \"PrivateUse1\")\n",
    "if hccl_timeout:\n    f()\nelse:\n    torch.cuda.set_device(rank)\n": "    torch.npu.set_device(rank)",
    "has_gpu = torch.cuda.is_available()\nhas_xpu = is_npu\n": "has_gpu = torch.npu.is_available()",
    "if is_npu:\n    tune()\nif torch.cuda.is_available():\n    device = 'cuda'\n": "    device = 'npu'\n",
    "def f():\n  if not torch.cuda.is_available():\n    return 0\n  if is_npu:\n    return 1\n": "not torch.npu.is",
    "def f():\n  if is_npu or wide:\n    return 0\n  if torch.cuda.is_available():\n    return 1\n": "torch.npu.is",
    "def f():\n  if is_mps:\n    return 0\n  elif is_npu:\n    f()\n  torch.cuda.init()\n": "  torch.npu.init",
    "if is_named('npu'):\n    f()\nelse:\n    torch.cuda.empty_cache()\n": "    torch.npu.empty_cache()",
    "if kind == Kind.XPU:\n    f()\nelse:\n    torch.cuda.empty_cache()  # not npu\n": "    torch.npu.empty_cache()",
}


@pytest.mark.parametrize("code", UNCHANGED)
def test_what_runs_on_no_npu_stays(project, code):
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert (migrated.content, migrated.findings) == (None, ())


@pytest.mark.parametrize("code", CHANGED)
def test_other_conditions_decide_nothing(migrate, code):
    assert CHANGED[code] in migrate(f"import torch\n{code}")


@pytest.mark.parametrize(
    ("path", "beside", "expected"),
    [
        ("platform_cuda.py", "platform_npu.py", True),
        ("lib/platform_cuda.py", "lib/platform_npu.py", True),
        ("lib/gpu_worker_base.py", "lib/ascend_worker_base.py", True),
        ("nccl.py", "hccl.py", True),
        ("lib/platform_cuda.py", "platform_npu.py", False),
        ("platform_cuda.py", "worker_npu.py", False),
        ("platform_hpu.py", "platform_npu.py", True),
        ("cpu_accelerator.py", "npu_accelerator.py", True),
        ("docker/docker-cuda/Dockerfile", "docker/docker-npu", True),
        (".github/workflows/tests_cuda.yml", ".github/workflows/tests_npu.yml", True),
        ("docker/docker-cuda/Dockerfile", "docker/other-npu", False),
    ],
)
def test_a_file_for_gpus_may_have_one_for_npus_beside_it(path, beside, expected):
    assert has_npu_file(path, {path, beside}.__contains__) is expected


def test_names_that_are_imported_under_another_name_stay_bound(migrate):
    code = "from torch import cuda\nif is_npu:\n    pass\nelse:\n    cuda.empty_cache()\ncuda.synchronize()\n"
    assert "cuda" not in migrate(code)


def test_a_function_of_cudas_stays_beside_the_npus_that_other_files_take(project):
    """The file that defines both asks CUDA's alone."""
    has = "import torch\n{}def has_cuda():\n    return torch.cuda.is_available()\ndef has_tf32():\n    has_cuda()\n"
    npu = "def has_npu():\n    return torch.npu.is_available()\n"
    both = {"has.py": has.format(npu), "a.py": "from has import has_npu\nprint(has_npu())\n"}
    assert project(both)["has.py"].content is None
    assert b"torch.npu.is_available" in project({"has.py": has.format("")})["has.py"].content
    assert project({"has.py": has.format(npu)})["has.py"].content.count(b"torch.npu.is_available") == 2


@pytest.mark.parametrize("other", ["npu", "hpu"])
def test_a_comparison_stays_where_a_file_for_npus_gives_the_other_value(project, other):
    cls = "class Card:\n    def device_name(self):\n        return '{0}'\n"
    files = {
        "cuda_card.py": cls.format("cuda"),
        f"{other}_card.py": cls.format(other),
        "card.py": f"import cuda_card, {other}_card\ndef card(i):\n"
        f"    return cuda_card.Card() if i else {other}_card.Card()\n",
        "use.py": "import torch\nfrom card import card\ngraphs = card(1).device_name() == 'cuda'\n",
    }
    assert (project(files)["use.py"].content is None) is (other == "npu")
