"""The operators that torch's GradScaler asks of a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel


@kernel("aten::_amp_foreach_non_finite_check_and_unscale_")
def unscale(self: Sequence[Array], found_inf: Array, inv_scale: Array) -> None:
    """Gradients times inv_scale, in place; found_inf becomes 1 where one is infinite or NaN."""
    factor = np.float32(inv_scale)
    for gradient in self:
        x = wide(gradient)
        if not np.all(np.isfinite(x)):
            found_inf[...] = 1
        np.copyto(gradient, rounded(np.asarray(x * factor), gradient.dtype))


@kernel("aten::_amp_update_scale_")
def update_scale(
    self: Array,
    growth_tracker: Array,
    found_inf: Array,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> None:
    """The loss scale backs off after an overflow and grows after `growth_interval` steps without one, in place."""
    if found_inf.any():
        self *= self.dtype.type(scale_backoff_factor)
        growth_tracker[...] = 0
        return
    steps = int(growth_tracker.reshape(())) + 1
    if steps == growth_interval:
        grown = self * self.dtype.type(scale_growth_factor)
        # A scale that would overflow stays.
        if np.all(np.isfinite(grown)):
            self[...] = grown
        steps = 0
    growth_tracker[...] = steps
