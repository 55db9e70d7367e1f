"""torch.npu.autocast_utils: autocast's state for the NPU."""

from gpu2npu.emulator.device.chip import get_amp_supported_dtype
from gpu2npu.emulator.device.settings import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)

from .._absent import publish as _publish

_publish(globals())
