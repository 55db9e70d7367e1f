"""A condition that guards only CUDA's own code stays, and is false on an NPU."""

import pytest

KEPT = [
    "if torch.cuda.is_available():\n    print('with CUDA')\n    sources += ['nms_cuda.c']\n    with_cuda = True\n",
    "if torch.cuda.is_available():\n    from ext import nms_gpu\nelse:\n    from ext import nms_cpu\n",
    "if torch.cuda.is_available():\n    import my_cuda_kernels\n",
    "if torch.cuda.is_available():\n    macros += [('WITH_CUDA', None)]\n    files = glob('*.cpp') + ['a.cu']\n",
    "IS_NVIDIA = torch.cuda.is_available() and torch.version.hip is None\n",
    "if torch.cuda.is_available() and torch.version.cuda:\n    f()\n",
    "if torch.cuda.is_available() and not (torch.version.hip or a):\n    f()\n",
]
CHANGED = [
    "if torch.cuda.is_available():\n    from ext import nms_gpu\n    x = nms_gpu(x)\n",
    "if torch.cuda.is_available():\n    from torch.cuda import amp\n",
    "if not torch.cuda.is_available():\n    from ext import nms_gpu\n",
    "if a or torch.cuda.is_available():\n    import my_cuda_kernels\n",
    "if torch.cuda.is_available():\n    print('yes')\n",
    "if torch.cuda.is_available():\n    device = 1\n",
    "if torch.cuda.is_available() and amp:\n    f()\n",
    "if torch.cuda.is_available() and (torch.version.hip or amp):\n    f()\n",
]


@pytest.mark.parametrize("code", KEPT)
def test_what_is_for_cuda_alone_stays(project, code):
    migrated = project({"a.py": f"import torch\n{code}"})["a.py"]
    assert migrated.content is None


@pytest.mark.parametrize("code", CHANGED)
def test_other_code_wakes_up_on_an_npu(migrate, code):
    assert "torch.npu.is_available()" in migrate(f"import torch\n{code}")
