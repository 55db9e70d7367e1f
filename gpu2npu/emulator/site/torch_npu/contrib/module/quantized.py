"""Linear layers of quantized weights, which are given to `weight.data` after the layer is made."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["LinearA8W8Quant", "LinearQuant", "LinearWeightQuant"]

npu = torch.ops.npu


def _fixed(present: bool, *size: int, **options: Any) -> nn.Parameter | None:
    return nn.Parameter(torch.empty(size, **options), requires_grad=False) if present else None


class LinearQuant(nn.Module):
    """A product of two int8 tensors, or of two int32 ones that hold 4 bits each, over `npu_quant_matmul`."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        offset: bool = False,
        pertoken_scale: bool = False,
        device: Any = None,
        dtype: Any = None,
        output_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.output_dtype = in_features, out_features, output_dtype
        self.weight = _fixed(True, out_features, in_features)
        self.scale = _fixed(True, out_features)
        self.offset = _fixed(offset, out_features, dtype=torch.float32)
        self.pertoken_scale = _fixed(pertoken_scale, out_features, dtype=torch.float32)
        self.bias = _fixed(bias, out_features, dtype=torch.int32)

    def forward(self, linear_quant_input: Tensor) -> Tensor:
        """The product, scaled.

        Raises:
            ValueError: Input and weight are neither both int8 nor both int32.
        """
        weight, scale = self.weight, self.scale
        assert weight is not None and scale is not None
        if linear_quant_input.dtype != weight.dtype or weight.dtype not in (torch.int8, torch.int32):
            raise ValueError(
                "input and weight should be both torch.int32 or both torch.int8 datatype, "
                f"but now input is {linear_quant_input.dtype}, weight is {weight.dtype}."
            )
        given: Tensor = scale
        if (
            self.pertoken_scale is None
            and scale.dtype == torch.float32
            and self.output_dtype not in (torch.bfloat16, torch.int32)
        ):
            given = npu.npu_trans_quant_param(scale, self.offset)
        result: Tensor = npu.npu_quant_matmul(
            linear_quant_input,
            weight.transpose(-2, -1),
            given,
            offset=self.offset,
            pertoken_scale=self.pertoken_scale,
            bias=self.bias,
            output_dtype=self.output_dtype,
        )
        return result


class LinearA8W8Quant(LinearQuant):
    """The older name of `LinearQuant`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        warnings.warn(
            "torch_npu.contrib.module.LinearA8W8Quant is deprecated and will be removed in a future version. "
            "Use torch_npu.contrib.module.LinearQuant instead.",
            FutureWarning,
            stacklevel=2,
        )

    def forward(self, linear_quant_input: Tensor) -> Tensor:
        """The product, scaled. Raises ValueError for a dtype of the result that this name does not know."""
        if self.output_dtype not in (None, torch.int8, torch.float16, torch.bfloat16):
            raise ValueError(
                "output_dtype should be torch.int8, torch.float16 or torch.bfloat16, "
                f"but now it is {self.output_dtype}."
            )
        return super().forward(linear_quant_input)


class LinearWeightQuant(nn.Module):
    """A product with weights of 8 or 4 bits, over `npu_weight_quant_batchmatmul`."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        antiquant_offset: bool = False,
        quant_scale: bool = False,
        quant_offset: bool = False,
        antiquant_group_size: int = 0,
        inner_precise: int = 0,
        weight_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = _fixed(True, out_features, in_features, device=device)
        self.antiquant_scale = _fixed(True, out_features, device=device)
        self.antiquant_offset = _fixed(antiquant_offset, out_features, device=device)
        self.quant_scale = _fixed(quant_scale, out_features, device=device)
        self.quant_offset = _fixed(quant_offset, out_features, device=device)
        self.bias = _fixed(bias, out_features, device=device)
        self.antiquant_group_size, self.inner_precise = antiquant_group_size, inner_precise
        self.weight_dtype = weight_dtype

    def forward(self, x: Tensor) -> Tensor:
        """The product with the weights as they were before quantization."""
        assert self.weight is not None
        scale, offset = (
            each.transpose(-1, -2) if each is not None and each.dim() == 2 else each
            for each in (self.antiquant_scale, self.antiquant_offset)
        )
        result: Tensor = npu.npu_weight_quant_batchmatmul(
            x,
            self.weight.transpose(-1, -2),
            scale,
            offset,
            self.quant_scale,
            self.quant_offset,
            self.bias,
            self.antiquant_group_size,
            self.inner_precise,
            weight_dtype=self.weight_dtype,
        )
        return result
