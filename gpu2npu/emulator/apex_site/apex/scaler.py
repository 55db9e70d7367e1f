"""The scale of a loss, which keeps float16 gradients from vanishing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

FIRST_SCALE, FACTOR, WINDOW = 2.0**16, 2.0, 2000  # apex's, as its document of `loss_scale="dynamic"` gives them


class LossScaler:
    """A fixed scale, or one that is halved after an overflow and doubled after 2000 steps without."""

    def __init__(self, loss_scale: float | str, smallest: float | None, largest: float) -> None:
        self.dynamic = loss_scale == "dynamic"
        self._scale = min(largest, FIRST_SCALE) if self.dynamic else float(loss_scale)
        self._smallest, self._largest = smallest or 0.0, largest
        self._unskipped = 0

    def loss_scale(self) -> float:
        """The factor of the loss now."""
        return self._scale

    def unscale(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Divide gradients by the scale in place; return whether one is not finite, for a scale that adapts."""
        found = False
        for parameter in parameters:
            if parameter.grad is not None:
                found = found or (self.dynamic and not bool(torch.isfinite(parameter.grad).all()))
                parameter.grad.div_(self._scale)
        return found

    def update(self, overflow: bool) -> None:
        """Adapt the scale to what the last backward pass gave."""
        if not self.dynamic:
            return
        self._unskipped = 0 if overflow else self._unskipped + 1
        if overflow:
            self._scale = max(self._smallest, self._scale / FACTOR)
        elif self._unskipped == WINDOW:
            self._scale, self._unskipped = min(self._largest, self._scale * FACTOR), 0

    def state_dict(self) -> dict[str, Any]:
        """The scale and the steps since it was changed, as apex names them."""
        return {"loss_scale": self._scale, "unskipped": self._unskipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._scale, self._unskipped = state["loss_scale"], state["unskipped"]
