"""Makes the emulated NPU of the test process, as PYTHONPATH does for a script."""

import sys
from pathlib import Path

SITE = Path(__file__).parents[2] / "gpu2npu" / "emulator" / "site"

if str(SITE) not in sys.path:
    sys.path.insert(0, str(SITE))

import torch_npu  # noqa: E402, F401
