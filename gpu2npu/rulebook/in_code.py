"""The rules that are in no rule file, for what they find depends on tables: their ids, and what they are about."""

from __future__ import annotations

TORCH_API = "torch-api"
NPU_LIMIT = "npu-limit"
TORCH_NPU = "torch-npu-requirement"
CUDA_BUILD = "cuda-build-requirement"
COMPANION = "torch-companion-requirement"
PLUGIN = "import-torch-npu"
BUILT = "built-from-cuda"
UNREAD = "unread-file"
NPU_FILE = "file-beside-npu-file"

WHY = {
    TORCH_API: "A torch API that the NPU lacks, runs on the CPU, or that no table knows.",
    NPU_LIMIT: "A call that fails on the NPU for its dtype, an argument or a layout: `gpu2npu rules explain ROW` shows "
    "the row of the table that a message ends with, and its source.",
    TORCH_NPU: "PyTorch and torch-npu have to be of one version.",
    CUDA_BUILD: "The package is built for CUDA.",
    PLUGIN: "Below PyTorch 2.5 nothing loads torch_npu but an import of it.",
    BUILT: "The project's own files say that the module is built from CUDA sources.",
    UNREAD: "A file could not be read, and what is in it was not migrated.",
    NPU_FILE: "A file for another device, with one for NPUs beside it, stays as it is.",
    COMPANION: "torchvision and torchaudio belong to one version of PyTorch each.",
}
