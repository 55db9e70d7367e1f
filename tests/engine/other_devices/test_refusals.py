"""Code that refuses what its kernels for CUDA cannot take, and what is behind it."""

import pytest

REFUSED = "    major, minor = torch.cuda.get_device_capability()\n    return major in (9, 10)\n"


@pytest.mark.parametrize("test", ["x.device.type != 'cuda'", "x.device.type != 'cuda' or y.device.type != 'cuda'"])
@pytest.mark.parametrize(
    ("refusal", "stays"),
    [
        ("raise ValueError('The CUDA kernel takes tensors of a GPU.')", True),
        ("raise RuntimeError(f'{x} needs Hopper, and a GPU.')", True),
        ("raise RuntimeError(f'{x} needs Triton, and a GPU.')", False),  # which is there for NPUs too
        ("raise RuntimeError(f'CPUs and GPUs of NVIDIA are supported, not {x}.')", False),
        ("return error('GEMM kernels require CUDA')", True),
        ("raise ValueError('x must be on a CUDA device')", False),
        ("return print('x must be on a CUDA device')", False),
    ],
)
def test_code_that_refuses_what_its_kernels_cannot_take_stays(migrate, test, refusal, stays):
    code = f"import torch\ndef f(x, y):\n    if {test}:\n        {refusal}\n"
    assert (migrate(code + REFUSED) == code + REFUSED) == stays


def test_a_refusal_for_kernels_goes_where_a_device_is_used_behind_it(migrate):
    code = "import torch\ndef f(x):\n    if not torch.cuda.is_available():\n        raise OSError('no CUDA kernels')\n"
    assert "torch.npu.is_available" in migrate(code + "    return x.cuda()\n")


def test_a_program_that_names_the_vendor_of_its_gpu_runs_on_an_npu(migrate):
    code = "import torch\ndef check():\n    if not torch.cuda.is_available():\n        raise OSError('{}')\ncheck()\n"
    assert "not torch.npu.is_available()" in migrate(code.format("No NVIDIA GPU was found. Training needs one."))
    kernels = code.format("The CUDA kernels need a GPU.")
    assert migrate(kernels) == kernels


@pytest.mark.parametrize(
    ("behind", "stays"),
    [
        ("if where.index is None:\n        where = torch.device('cuda', torch.cuda.current_device())", True),
        ("where = torch.device('cuda', 0)", True),
        ("rows = rows.to(torch.device('cuda', 0))", False),  # a device of its own, which is used
        ("if where.index is None:\n        rows = rows.cuda()", False),
    ],
)
def test_a_refused_device_may_be_completed_behind_its_refusal(migrate, behind, stays):
    refusal = "if where.type != 'cuda':\n        raise TypeError('cuDF has its frames on a GPU of NVIDIA')"
    code = f"import torch\ndef table(rows, where):\n    {refusal}\n    {behind}\n    return rows, where\n"
    assert (migrate(code) == code) is stays


@pytest.mark.parametrize(
    ("also", "stays"), [("torch.cuda.get_device_capability(x.device)[0] != 10", True), ("x.dim() != 2", False)]
)
def test_a_refusal_may_ask_for_a_capability_too(migrate, also, stays):
    refusal = "raise RuntimeError('This attention requires a Blackwell device.')"
    code = f"import torch\ndef f(x):\n    if x.device.type != 'cuda' or {also}:\n        {refusal}\n    return x\n"
    assert ("!= 'cuda'" in migrate(code)) is stays


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        ("if not torch.cuda.is_available():\n    print('no fp8 without a GPU')\n", True),
        ("if not torch.cuda.is_available():\n    print('slow without a GPU')\n", False),
        ("if not torch.cuda.is_available():\n    print('quantization will run on the CPU')\n", False),
        ("if not torch.cuda.is_available():\n    print('no fp8 without a GPU')\n    d = 'cpu'\n", False),
        ("if x.device.type not in ['cuda', 'cpu']:\n    raise ValueError('FP8 needs CUDA')\n", True),
        ("if x.device.type not in ['cuda', 'cpu']:\n    raise ValueError('no device')\n", False),
        ("def f(a):\n  if not torch.cuda.is_available() and not is_xpu():\n    if a:\n      warn('MXFP4 needs a GPU')\n"
         "      return\n    else:\n      raise ValueError('no GPU')\n", True),
        ("def f(a):\n  if not torch.cuda.is_available():\n    if a:\n      warn('MXFP4 needs a GPU')\n"
         "    else:\n      a = 1\n", False),
    ],
)  # fmt: skip
def test_a_fallback_from_float8_stays(migrate, code, stays):
    assert ("npu" not in migrate(f"import torch\n{code}")) is stays
