"""A condition that guards only CUDA's own code stays, and finds no CUDA on an NPU."""

import pytest

from gpu2npu.records import Severity

UNCHANGED = [
    "if torch.cuda.is_available():\n    print('with CUDA')\n    sources += ['nms_cuda.c']\n    with_cuda = True\n",
    "if torch.cuda.is_available():\n    from ext import nms_gpu\nelse:\n    from ext import nms_cpu\n",
    "if torch.cuda.is_available():\n    import cuda_kernels\n",
    "if torch.cuda.is_available():\n    import cuda_kernels\n    pass\n",
    "if torch.cuda.is_available():\n    from cuda_kernels import nms\n",
    "sources += ['a.cu', 'b.cpp'] if torch.cuda.is_available() else ['b.cpp']\n",
    "kernel = 'nms.cu' if torch.cuda.is_available() else 'nms.cpp'\n",
    "if torch.cuda.is_available():\n    macros += [('WITH_CUDA', None)]\n    files = glob('*.cpp') + ['a.cu']\n",
    "if not (torch.cuda.is_available() and a):\n    if 'cpu' not in v:\n        v = v + '+cpu'\n",
    "if torch.cuda.is_available() is False:\n    raise RuntimeError('8-bit needs a GPU')\n",
    "if torch.cuda.is_available() == False:\n    from ext import nms_cpu\nelse:\n    from ext import nms_gpu\n",
    "IS_NVIDIA = torch.cuda.is_available() and torch.version.hip is None\n",
    "if torch.cuda.is_available() and torch.version.cuda:\n    f()\n",
    "try:\n    import cupy\n    OK = True\nexcept ImportError:\n    OK = 0\nrun = OK and torch.cuda.is_available()\n",
    "if torch.cuda.is_available() and not (torch.version.hip or a):\n    f()\n",
    "if torch.cuda.is_available() or os.getenv('NO_CUDA') != '1':\n    sources += ['a.cu']\n",
    "if (torch.cuda.is_available() and (home or rocm)) or os.environ.get('WITH_CUDA'):\n    sources += ['a.cu']\n",
    "def f():\n    has_gpu = torch.cuda.is_available()\n    if has_gpu:\n        from ext import nms_gpu\n",
    "_GPU = torch.cuda.is_available()\nif _GPU:\n    from ext import nms_gpu\n",
    "if not torch.cuda.is_available():\n    raise RuntimeError('No GPU found. A GPU is needed for quantization.')\n",
    "assert torch.cuda.is_available(), 'bitsandbytes needs a GPU'\n",
    "if (a or b) and (not torch.cuda.is_available() or not c):\n    raise ValueError('8-bit needs a GPU')\n",
    "if x and torch.cuda.is_available():\n    f = replace_with_bnb_linear(f)\n",
    "import bitsandbytes\nif x and (a and torch.cuda.is_available()):\n    f(bitsandbytes.nn.Linear8bitLt(2))\n",
    "import cupy\nif cupy is not None and torch.cuda.is_available():\n    f()\n",
    "if torch.cuda.is_available() and isinstance(a, CUDAOpBuilder):\n    f()\n",
    "if torch.cuda.is_available():\n    key = 'onnx-cuda'\nelif a:\n    key = 'onnx-darwin'\n",
    "wanted = 'onnxruntime-gpu>=1.16' if torch.cuda.is_available() else 'onnxruntime'\n",
    "kind = Kind.NF4 if torch.cuda.is_available() else Kind.NONE\n",
    "if torch.cuda.is_available():\n    kind = Kind.nf4\nelse:\n    kind = None\n",
    "if torch.cuda.is_available():\n    sources += sources_cuda\n    args['nvcc'] = flags\n",
    "if torch.cuda.is_available():\n    macros = ['-D__CUDA_NO_HALF__']\n",
    "if torch.cuda.is_available():\n    sources.extend(cuda_files)\n    extra = {'cxx': [], 'nvcc': ['-O3']}\n",
    "built = CUDAExtension if torch.cuda.is_available() else CppExtension\n",
    "if torch.cuda.is_available():\n    a.append(c.CUDAExtension('a', files))\n    b = {'b': BuildExtension}\n",
    "if not torch.cuda.is_available():\n    if home:\n        os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0'\n",
    "if x and torch.cuda.is_available():\n    net.enable_xformers_memory_efficient_attention()\n",
    "run = x and torch.cuda.is_available()\nif run:\n    net.enable_xformers_memory_efficient_attention()\n",
    "if torch.cuda.is_available():\n    import flash_attn\n",
    "from flash_attn import func\nif torch.cuda.is_available() and func is not None:\n    f()\n",
    "if not torch.cuda.is_available():\n    raise ValueError('Flash attention needs a GPU.')\n",
    "from torch.utils.cpp_extension import load_inline\ndef f():\n    if not torch.cuda.is_available():\n"
    "        return None\n    return load_inline('k', cpp_sources='', cuda_sources=S)\n",
]
CHANGED = [  # the first: names of variables decide nothing
    "if use_xformers and torch.cuda.is_available():\n    f()\n",
    "if args.use_8bit and torch.cuda.is_available():\n    f()\n",
    "if bnb_config is not None and (a and torch.cuda.is_available()):\n    f()\n",
    "can_run = HAS_CUPY and torch.cuda.is_available()\n",
    "if torch.cuda.is_available():\n    nvcc_flags = shlex.split(flags)\n",
    "cuda_files = ['a.cpp']\nif torch.cuda.is_available():\n    sources += cuda_files\n",
    "if (paged or optimizer.is_8bit) and (not torch.cuda.is_available() or not a):\n    raise ValueError(a)\n",
    "def f(x, q_4bit_words):\n    if q_4bit_words and torch.cuda.is_available():\n        return x.cuda()\n",
    "if not torch.cuda.is_available():\n    raise RuntimeError('A GPU is needed for training.')\n",
    "assert torch.cuda.is_available(), 'this needs a GPU'\n",
    "if torch.cuda.is_available():\n    net = load(name, load_in_8bit=True)\nelse:\n    net = load(name)\n",
    "if torch.cuda.is_available() and bits == 8:\n    f()\n",
    "if torch.cuda.is_available() and not args.load_in_4bit:\n    f()\n",
    "if torch.cuda.is_available() and not (a and args.fp4):\n    f()\n",
    "if torch.cuda.is_available() and args.nf4 is None:\n    f()\n",
    "if use_bnb is False and torch.cuda.is_available():\n    f()\n",
    "if torch.cuda.is_available() and bnb_type != 'nf4':\n    f()\n",
    "if torch.cuda.is_available() and (args.load_in_4bit or a):\n    f()\n",
    "if torch.cuda.is_available() and (args.n4 and args.f4 and args.use_64bit):\n    f()\n",
    "if torch.cuda.is_available() and cupy is None:\n    f()\n",
    "if torch.cuda.is_available() and not use_xformers:\n    f()\n",
    "if torch.cuda.is_available() and flash:\n    f()\n",
    "if torch.cuda.is_available() and use_flash_attn:\n    model = load(attention, device_map='cuda')\n",
    "if not torch.cuda.is_available():\n    raise ValueError('Flash attention needs a GPU.')\nnet.cuda()\n",
    "assert torch.cuda.is_available(), 'xformers needs a GPU.'\nnet.cuda()\n",
    "if torch.cuda.is_available():\n    state = torch.load(cuda_file, map_location='cuda')\n",
    "if not torch.cuda.is_available():\n    os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0'\nelse:\n    net.cuda()\n",
    "if not torch.cuda.is_available():\n    os.environ['ARCH_LIST'] = '8.0'\n",
    "if torch.cuda.is_available():\n    sources += more_files\n    args['cxx'] = flags\n",
    "built = Extension if torch.cuda.is_available() else None\n",
    "from settings import *\ngpu = gpu and torch.cuda.is_available()\nif gpu:\n    from ext import nms_gpu\n",
    "while a:\n    b = c and torch.cuda.is_available()\n    c = b and d\n    if c:\n        import my_cuda_kernels\n",
    "if torch.cuda.is_available() or a:\n    sources += ['a.cu']\n",
    "if not torch.cuda.is_available():\n    sys.exit()\n",
    "_GPU = torch.cuda.is_available()\nif _GPU:\n    from ext import nms_gpu\nif _GPU:\n    f(x)\n",
    "if torch.cuda.is_available():\n    from ext import nms_gpu\n    x = nms_gpu(x)\n",
    "if torch.cuda.is_available():\n    from torch.cuda import amp\n",
    "if not torch.cuda.is_available():\n    from ext import nms_gpu\n",
    "if a or torch.cuda.is_available():\n    import my_cuda_kernels\n",
    "if a and not torch.cuda.is_available():\n    import my_cuda_kernels\n",
    "if torch.cuda.is_available() is False:\n    import my_cuda_kernels\n",
    "if torch.cuda.is_available() != wanted:\n    import my_cuda_kernels\n",
    "if torch.cuda.is_available() not in wanted:\n    import my_cuda_kernels\n",
    "if torch.cuda.is_available():\n    import cuda_kernels\n    x += 1\n",
    "if torch.cuda.is_available() or name == 'FORCE_CUDA':\n    sources += ['a.cu']\n",
    "if torch.cuda.is_available():\n    pass\n",
    "if torch.cuda.is_available():\n    print('yes')\n",
    "if torch.cuda.is_available():\n    device = 1\n",
    "if torch.cuda.is_available() and amp:\n    f()\n",
    "if torch.cuda.is_available() and (torch.version.hip or amp):\n    f()\n",
    "if torch.cuda.is_available() and isinstance(a, CUDAOptimizer):\n    f()\n",
    "if torch.cuda.is_available() and not isinstance(a, CUDAOpBuilder):\n    f()\n",
    "if torch.cuda.is_available():\n    name = 'model-gpu'\n",
]


BUILDER = "def start():\n    files = [join(here, name) for name in ({!r}, 'bind.cpp')]\n    return make(files)\n"
STARTED = "if torch.cuda.is_available() and start():\n    y = run(x)\n"
UNCHANGED += [BUILDER.format("mine.cu") + STARTED]
CHANGED += [BUILDER.format("mine.cpp") + STARTED]


BUILT = "def f():\n    if not torch.cuda.is_available() or {}:\n        raise RuntimeError('no GPU')\n    {}\n"
UNCHANGED += [BUILT.format("torch.version.cuda is None", "lower()"), BUILT.format("not torch.version.cuda", "lower()")]
CHANGED += [BUILT.format("torch.version.cuda is None", "net.cuda()"), BUILT.format("name is None", "lower()")]


PYCUDA = "import pycuda.autoinit\n"
TRIED = "def fast(x):\n    try:\n        import pycuda.autoinit\n    except ImportError:\n        {}\n    return x\n"
CHOSEN = "run = fast if torch.cuda.is_available() else slow\n"
NVIDIA = "def {}():\n    if torch.cuda.is_available():\n        return {}\n    return shutil.which({}) is not None\n"
UNCHANGED += [
    f"def fast(x):\n    'By PyCUDA.'\n    {PYCUDA}    return x\n{CHOSEN}",
    f"def fast(x):\n    from cupy import array\n    return x\n{CHOSEN}",
    TRIED.format("raise") + CHOSEN,
    NVIDIA.format("_has_nvidia_gpu", "True", "'nvidia-smi'"),
]
CHANGED += [
    TRIED.format("pass") + CHOSEN,
    f"def fast(x):\n    if x:\n        {PYCUDA}    return x\n{CHOSEN}",
    f"def fast(x):\n    import math\n    return x\n{CHOSEN}",
    f"def fast(x):\n    'By nothing yet.'\n{CHOSEN}",
    NVIDIA.format("has_gpu", "True", "'nvidia-smi'"),
    NVIDIA.format("_has_nvidia_gpu", "True", "'npu-smi'"),
    NVIDIA.format("_has_nvidia_gpu", "size()", "'nvidia-smi'"),
]


@pytest.mark.parametrize("code", UNCHANGED)
def test_what_is_for_cuda_alone_stays(project, code):
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert migrated.content is None
    (found,) = [each for each in migrated.findings if "is_available()" in each.api]
    assert found.severity is Severity.NOTE and "finds no CUDA on an NPU" in found.message
    assert found.api in code


@pytest.mark.parametrize(
    "code",
    [
        "if device.type == 'cuda':\n    found = [('CUDAExecutionProvider', {'device_id': 0}), 'CPU']\n",
        "providers = ['CUDAExecutionProvider'] if torch.cuda.is_available() else ['CPUExecutionProvider']\n",
        "providers = [('TensorrtExecutionProvider', {})] if torch.cuda.is_available() else None\n",
        "if torch.cuda.is_available():\n    providers.insert(0, 'CUDAExecutionProvider')\n",
        "EP = 'CUDAExecutionProvider'\nproviders = [EP] if torch.cuda.is_available() else None\n",
        "EP = 'CUDAExecutionProvider'\nif torch.cuda.is_available():\n    providers.append(EP)\n",
        "use = torch.cuda.is_available()\nif use:\n    providers = ['CUDAExecutionProvider']\n",
    ],
)
def test_a_provider_of_onnx_runtime_for_cuda_is_not_requested(project, code):
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert migrated.content is None
    assert any("this condition" in found.message for found in migrated.findings)
    assert any("CANNExecutionProvider" in found.message for found in migrated.findings)


@pytest.mark.parametrize(
    ("module", "stays"),
    [
        ("try:\n    op = load('op', sources=[join(here, 'op.cu')])\nexcept Exception:\n    op = None\n", True),
        ("op = load('op', sources=[join(here, 'op.cpp')])  # no op.cu\n", False),
        ("def op(x):\n    return load('op', sources=['op.cu']).op(x)\n", False),
    ],
)
@pytest.mark.parametrize(
    "code",
    [
        "if torch.cuda.is_available():\n    from ops.soft import op\n    CONFIG['op'] = op\n",
        "if torch.cuda.is_available() and a:\n    try:\n        from .ops import soft\n        x = soft.op(x)\n"
        "    except Exception:\n        pass\n",
    ],
)
def test_what_the_kernels_that_a_module_builds_are_imported_for_stays(project, module, stays, code):
    built = f"from torch.utils.cpp_extension import load\n{module}"
    files = {"a.py": f"import torch\n{code}", "ops/__init__.py": "", "ops/soft.py": built}
    migrated = project(files)["a.py"]
    assert (migrated.content is None) is stays
    assert any("finds no CUDA on an NPU" in found.message for found in migrated.findings) is stays
    moved = project({**files, "a.py": f"{files['a.py']}    net.cuda()\n"})["a.py"]
    assert "torch.npu.is_available()" in moved.content.decode()


@pytest.mark.parametrize("source", ["op.cu", "op.cpp"])
def test_a_choice_of_kernels_that_a_function_builds_stays(project, source):
    code = f"""import argparse
import torch
from torch.utils.cpp_extension import load
def build():
    return load('op', sources=['{source}'])
parser = argparse.ArgumentParser()
parser.add_argument('--impl', default='cuda', choices=['cuda', 'slow'])
args = parser.parse_args()
if args.impl == 'cuda' and torch.cuda.is_available():
    op = build()
"""
    migrated = project({"a.py": code})["a.py"]
    assert (migrated.content is None) is (source == "op.cu")
    assert any("May mean 'npu'" in found.message for found in migrated.findings)


@pytest.mark.parametrize(
    ("built", "stays"),
    [
        ("files = [folder / name for name in ('a.cpp', 'a.cu')]\nkernels = load('a', files)\n", True),
        ("kernels = load('a', files, extra_cuda_cflags=flags)\n", True),
        ("kernels = load('a', ['a.cpp'])\n", False),
        ("files = ['a.cu']\n", False),
        ("torch.cuda.get_device_capability()\nwith lock:\n    load('a', ['a.cu'])\n", True),
        ("try:\n    load('a', ['a.cu'])\nexcept OSError as error:\n    raise ImportError from error\n", True),
        ("if fast:\n    load('a', ['a.cu'])\nelse:\n    load('a', ['b.cu'])\n", True),
        ("def run(x):\n    return kernels.run(x.to(device))\nkernels = load('a', ['a.cu'])\n", True),
        ("x.to(device)\nload('a', ['a.cu'])\n", False),
        ("with lock:\n    torch.cuda.set_device(rank)\n    load('a', ['a.cu'])\n", False),
        ("def run(x):\n    return x.to(device)\nrun(x)\nload('a', ['a.cu'])\n", False),
        ("class Net:\n    def __init__(self):\n        self.to(d)\nNet()\nload('a', ['a.cu'])\n", False),
        ("try:\n    load('a', ['a.cu'])\nexcept OSError:\n    kernels = None\n", False),
        ("if fast:\n    load('a', ['a.cu'])\n", False),
        ("kernels = load('a', ['a.cu']) if fast else None\n", False),
        ("def build():\n    return load('a', ['a.cu'])\n", False),
    ],
)
def test_a_refusal_stays_before_kernels_that_are_built(project, built, stays):
    refusal = "if not torch.cuda.is_available():\n    raise OSError\n"
    code = f"import torch\nfrom torch.utils.cpp_extension import load\n{refusal}{built}"
    migrated = project({"a.py": code})["a.py"]
    content = code if migrated.content is None else migrated.content.decode()
    assert ("if not torch.cuda.is_available()" in content) is stays
    assert any("finds no CUDA on an NPU" in found.message for found in migrated.findings) is stays


def test_a_device_that_is_used_before_a_refusal_needs_it_too(migrate):
    code = "import torch\nfrom torch.utils.cpp_extension import load\nx.to(device)\n"
    code += "if not torch.cuda.is_available():\n    raise OSError\nload('a', ['a.cu'])\n"
    assert "not torch.npu.is_available()" in migrate(code)


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        ("torch_tvm.enable(device='cuda')\n        print(1)", True),
        ("torch_tvm.enable(device='cuda')\n        f()", False),
        ("torch_tvm.enable(device='llvm')", False),
        ("f(device='cuda')", False),
    ],
)
def test_a_package_that_knows_no_npu_is_given_cuda_under_a_condition_that_stays(project, body, stays):
    tried = f"    try:\n        import torch_tvm\n\n        {body}\n    except ImportError:\n        pass\n"
    migrated = project({"a.py": f"import torch\nif torch.cuda.is_available():\n{tried}"})["a.py"]
    assert (migrated.content is None) is stays


def test_an_optimizer_of_bitsandbytes_is_chosen_with_cuda_alone(project):
    code = "optimizer = bnb.optim.AdamW8bit(x) if torch.cuda.is_available() else AdamW(x)\n"
    migrated = project({"a.py": f"import torch\nimport bitsandbytes as bnb\n{code}"})["a.py"]
    assert migrated.content is None
    assert "finds no CUDA on an NPU" in migrated.findings[-1].message


def test_a_variable_that_decides_alone_is_reported_once(project):
    code = "import os\nif 'CUDA_HOME' in os.environ:\n    sources += ['a.cu']\n"
    migrated = project({"a.py": code})["a.py"]
    assert migrated.content is None and [each.api for each in migrated.findings] == ["CUDA_HOME"]


def test_a_variable_that_forces_a_build_is_reported_beside_the_condition(project):
    code = "if torch.cuda.is_available() or os.getenv('FORCE_CUDA') == '1':\n    sources += ['a.cu']\n"
    migrated = project({"a.py": f"import os\nimport torch\n{code}"})["a.py"]
    assert migrated.content is None
    assert [found.rule for found in migrated.findings] == ["torch-cuda", "env-force-cuda"]


def test_a_variable_that_does_not_name_cuda_forces_no_build_for_it(project):
    code = "if torch.cuda.is_available() or os.getenv('BUILD_ALL') == '1':\n    sources += ['a.cu']\n"
    migrated = project({"a.py": f"import os\nimport torch\n{code}"})["a.py"]
    assert b"if torch.npu.is_available() or os.getenv('BUILD_ALL')" in migrated.content


def test_a_text_that_speaks_of_cuda_is_no_question_for_it(project):
    code = "if ask('torch.cuda.is_available', torch.cuda.current_device()):  # is_cuda\n    import my_cuda_kernels\n"
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert b"torch.npu.current_device()" in migrated.content


@pytest.mark.parametrize(
    ("other", "stays"),
    [("_GPU = 1\n", True), ("import a\n", True), ("from a import _GPU\n", False), ("import a\nprint(a._GPU)\n", False)],
)
def test_whether_another_file_uses_a_private_name_the_imports_say(project, other, stays):
    code = "import torch\n_GPU = torch.cuda.is_available()\nif _GPU:\n    from ext import nms_gpu\n"
    migrated = project({"a.py": code, "b.py": other})["a.py"]
    assert (migrated.content is None) is stays


@pytest.mark.parametrize(
    "code",
    [
        "import cupy\ndef f(x):\n    if 'cuda' not in x.device.type:\n        raise E()\n    return cupy.a.K().b(x)\n",
        "try:\n    from mamba_ssm import a\nexcept ImportError:\n    a = None\ndef g(x):\n    return a(x)\ndef f(x):\n"
        "    if not x.is_cuda:\n        raise ValueError()\n    y = g(x)\n    return y\n",
        "import importlib\ndef g(n):\n    return importlib.import_module(n), True\ncp, ok = g('cupy')\ndef f(x):\n"
        "    if x.device.type == 'cuda' and ok:\n        return cp.unique(x)\n",
    ],
)
def test_a_condition_on_a_tensor_before_what_calls_kernels_stays(project, code):
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert migrated.content is None
    assert any("which stays as it is" in each.message for each in migrated.findings)


def test_a_condition_on_a_tensor_is_reported_too(project):
    code = "def f(x):\n    if x.is_cuda:\n        from ext import nms_gpu\n"
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert migrated.content is None and [found.api for found in migrated.findings] == ["x.is_cuda"]


def test_a_comment_switches_the_finding_off(project):
    code = "if torch.cuda.is_available():  # gpu2npu: skip\n    import cuda_kernels\n"
    assert not project({"a.py": f"import torch\n{code}"})["a.py"].findings


def test_a_name_that_other_files_may_ask_is_reported_where_it_wakes_kernels(project):
    code = "HAS_GPU = torch.cuda.is_available()\nif HAS_GPU:\n    from ext import nms_gpu\nif HAS_GPU:\n    f(x)\n"
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert b"HAS_GPU = torch.npu.is_available()" in migrated.content
    (found,) = migrated.findings
    assert (found.api, found.span.start_line, found.severity) == ("HAS_GPU", 3, Severity.CHANGE)


@pytest.mark.parametrize("code", CHANGED)
def test_other_code_wakes_up_on_an_npu(migrate, code):
    assert "torch.npu.is_available()" in migrate(f"import torch\n{code}")


def test_what_follows_the_return_without_cuda_is_cudas_own(project):
    code = "def f(x):\n    if not torch.cuda.is_available():\n        return slow(x)\n    return nms_gpu(x)\n"
    files = {"pkg/__init__.py": "", "pkg/a.py": f"import torch\nfrom ._ext import nms_gpu\n{code}"}
    migrated = project(files)["pkg/a.py"]
    assert migrated.content is None
    assert "finds no CUDA on an NPU" in migrated.findings[-1].message


def test_a_function_of_autograd_in_python_is_no_kernel(migrate):
    code = "class Own(torch.autograd.Function):\n    def forward(ctx, x):\n        return torch.relu(x)\n"
    code += "def f(x):\n    if x.is_cuda:\n        return Own.apply(x)\n    return x * 2\n"
    assert "if x.is_npu:" in migrate(f"import torch\n{code}")


def test_a_function_in_python_is_no_kernel(project):
    code = "import torch\nfrom pkg import tools\ndef f(x):\n    if x.is_cuda:\n        x = tools.move_to_cuda(x)\n"
    tools = "def move_to_cuda(x):\n    return x.cuda()\n"
    migrated = project({"pkg/__init__.py": "", "pkg/tools.py": tools, "pkg/a.py": code})["pkg/a.py"]
    assert b"if x.is_npu:" in migrated.content


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    if x.is_cuda:\n        d = torch.device('cpu', x.get_device())\n",
        "def f(x):\n    if x.device.type == 'cuda':\n        torch.set_float32_matmul_precision('high')\n",
        "def f(x):\n    if x.is_cuda and slow:\n        start = time.time()\n",
    ],
)
def test_a_function_of_torch_is_no_kernel(project, code):
    migrated = project({"a.py": f"import time\nimport torch\n{code}", "b.py": ""})["a.py"]
    assert migrated.content is not None and (b"is_npu" in migrated.content or b"== 'npu'" in migrated.content)
    assert not [each for each in migrated.findings if "CUDA kernels" in each.message]


def test_an_object_of_a_module_in_python_is_no_compiled_one(project):
    code = "import torch\nfrom .tools import kit\ndef f(x):\n    if x.is_cuda:\n        return kit.forward(x)\n"
    migrated = project({"pkg/__init__.py": "", "pkg/tools.py": "kit = make()\n", "pkg/a.py": code})["pkg/a.py"]
    assert b"if x.is_npu:" in migrated.content


GRAPHED = {
    "a method": "class B:\n    def fast(self, x):\n        return graphed(f, x)\n    def forward(self, x, q):\n"
    "        if q == 1 and x.device.type == 'cuda':\n            y, z = self.fast(x)\n"
    "        else:\n            y, z = slow(x)\n        return y, z\n",
    "a method of another file": "from pkg.kits import Kit\ndef forward(x):\n    if x.is_cuda:\n"
    "        return Kit.fast(x)\n    return f(x)\n",
    "what is returned": "def forward(x):\n    if x.is_cuda:\n        return graphed(f, x)\n    return f(x)\n",
}
GRAPHS = (
    "import torch\ndef graphed(f, x):\n    g = torch.cuda.CUDAGraph()\n    with torch.cuda.graph(g):\n        f(x)\n"
)


@pytest.mark.parametrize("code", GRAPHED.values(), ids=GRAPHED)
def test_a_graph_that_the_release_cannot_capture_is_left_to_the_branch_beside(project, code):
    kits = "import torch as th\nclass Kit:\n    @staticmethod\n    def fast(x):\n        return th.cuda.CUDAGraph()\n"
    files = {"pkg/__init__.py": "", "pkg/graphs.py": GRAPHS, "pkg/a.py": f"from pkg.graphs import graphed\n{code}"}
    files["pkg/kits.py"] = kits
    migrated = project(files, "2.1.0.post0")["pkg/a.py"]
    assert migrated.content is None
    assert [finding for finding in migrated.findings if "stays as it is" in finding.message]
    assert project(files, "2.7.1")["pkg/a.py"].content is not None


def test_what_captures_no_graph_or_stands_alone_is_migrated(project):
    other = "    else:\n        z = x\n"
    alone = f"from pkg.graphs import graphed\ndef f(x):\n    if x.is_cuda:\n        y = graphed(f, x)\n{other}"
    plain = "from pkg.graphs import eager\ndef f(x):\n    if x.is_cuda:\n        return eager(x)\n    return x\n"
    graphs = f"{GRAPHS}def eager(x):\n    return torch.cuda.stream(x)\n"
    files = {"pkg/__init__.py": "", "pkg/graphs.py": graphs, "pkg/a.py": alone, "pkg/b.py": plain}
    migrated = project(files, "2.1.0.post0")
    assert b"is_npu" in migrated["pkg/a.py"].content and b"is_npu" in migrated["pkg/b.py"].content


@pytest.mark.parametrize("question", ["x.is_cuda", "torch.cuda.is_available()", "n"])
@pytest.mark.parametrize("end", ["\n", "", "; f()\n"])
def test_what_is_added_behind_a_condition_is_not_in_it(migrate_with, question, end):
    add = {"statement": "lib.warm()", "place": "after"}
    rule = {"id": "add", "match": {"code": "lib.start()"}, "then": {"add": add}}
    code = f"import cupy, lib, torch\nprint(x.is_cuda)\ny = lib.start() if n else cupy and {question}"
    result = migrate_with([rule], code + end)
    assert result.content.decode().endswith(f"cupy and {question}\nlib.warm()" + end.replace("; ", "\n"))
    assert "add" not in {finding.rule for finding in result.findings}


def test_a_condition_before_questions_about_a_gpu_stays_in_what_was_migrated(migrate):
    code = (
        "import torch\n\nif torch.cuda.is_available():\n"
        "    if torch.cuda.get_device_capability() >= (8, 0):\n        torch.set_float32_matmul_precision('high')\n"
    )
    once = migrate(code)
    assert "if torch.cuda.is_available()" in once and migrate(once) == once
