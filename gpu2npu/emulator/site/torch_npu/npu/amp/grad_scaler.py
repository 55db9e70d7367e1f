"""torch.npu.amp.grad_scaler."""

import torch

from .common import amp_definitely_not_available

__all__ = ["GradScaler", "amp_definitely_not_available"]


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("npu", ...)` with the signature of `torch.cuda.amp.GradScaler`.

    `dynamic` is torch_npu's: False keeps the scale, as its static loss scaling does.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "npu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
        self._dynamic = dynamic

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adjust the scale, unless it is static and no new one is given."""
        if self._enabled and not self._dynamic and new_scale is None:
            new_scale = self.get_scale()
        super().update(new_scale)
