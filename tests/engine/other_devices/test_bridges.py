"""Code that makes what is written for CUDA run on another device."""

import gpu2npu


def test_what_gives_cuda_the_functions_of_another_device_stays():
    patch = (
        "import torch\n\n\ndef to_xpu():\n    torch.cuda.Event = torch.xpu.Event\n    torch.cuda.empty_cache = print\n"
        "    torch.Tensor.is_cuda = torch.Tensor.is_xpu\n\n\ntorch.cuda.Stream = torch.xpu.Stream\n"
    )
    own = "x = torch.cuda.current_device()\n"
    text = gpu2npu.migrate_source(patch + own, version="2.7.1").text
    assert text == patch.replace("import torch\n", "import torch\nimport torch_npu\n") + own.replace(".cuda", ".npu")
