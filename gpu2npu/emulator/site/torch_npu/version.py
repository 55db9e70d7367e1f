"""torch_npu.version: the release that is imitated."""

import torch

from gpu2npu.emulator.device.dispatch.support_table import release

__version__ = release() or torch.__version__.partition("+")[0]
git_version = "Unknown"
