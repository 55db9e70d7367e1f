"""fairseq's attention over `npu_multi_head_attention`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from ..function.matmul_transpose import matmul_transpose as Matmul_transpose
from ._ensemble_dropout import NpuCachedDropout

__all__ = ["Matmul_transpose", "MultiheadAttention"]


def _quant_noise(module: Any, p: float, block_size: int) -> Any:
    """Let a layer drop blocks of its weight, of probability p, before each forward pass in training.

    Raises:
        TypeError: It is another layer than Linear, Embedding and Conv2d.
        ValueError: Blocks do not fit its weight.
    """
    if p <= 0:
        return module
    if not isinstance(module, (nn.Linear, nn.Embedding, nn.Conv2d)):
        raise TypeError(f"quantization noise is for Linear, Embedding and Conv2d, not for {type(module).__name__}")
    area = math.prod(module.weight.shape[2:])
    blocked = module.weight.shape[1] if area == 1 else area
    if blocked % block_size:
        what = "kernel's size" if area > 1 else "input features"
        raise ValueError(f"the {what}, {blocked}, is not a multiple of the block size {block_size}")

    def drop(layer: Any, inputs: Any) -> None:
        if layer.training:
            weight = layer.weight
            out, features = weight.shape[:2]
            blocks = (out, features // block_size if area == 1 else features)
            dropped = torch.zeros(blocks, device=weight.device).bernoulli_(p).bool()
            if area == 1:
                dropped = dropped.repeat_interleave(block_size, -1)
            dropped = dropped.view(out, features, *[1] * (weight.dim() - 2))
            layer.weight.data = weight.masked_fill(dropped, 0) / (1 - p)

    module.register_forward_pre_hook(drop)
    return module


class _NpuLinear(nn.Linear):
    def forward(self, input2: torch.Tensor) -> torch.Tensor:
        """The product. Raises RuntimeError for an input of neither two nor three dimensions."""
        if input2.dim() not in (2, 3):
            raise RuntimeError(f"the input of this layer has 2 or 3 dimensions, not {input2.dim()}")
        return super().forward(input2)


class _MHAConfig:
    use_fussion_mha = False

    @classmethod
    def set_fussion(cls) -> None:
        """Let the modules compute; until then they give None."""
        cls.use_fussion_mha = True


class MultiheadAttention(nn.Module):
    """Attention of `num_heads` heads over sequences that are laid out as (batch * length, embed_dim).

    Raises:
        ValueError: The dimensions do not fit.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        q_noise: float = 0.0,
        qn_block_size: int = 8,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.qkv_same_dim = self.kdim == self.vdim == embed_dim
        self.dropout_module, self.dropout_prob = NpuCachedDropout(dropout, type(self).__name__), dropout
        if self.head_dim * num_heads != embed_dim:
            raise ValueError("embed_dim must be divisible by num_heads")
        if self_attention and not self.qkv_same_dim:
            raise ValueError("Self-attention requires query, key and value to be of the same size")
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (
            _quant_noise(_NpuLinear(features, embed_dim, bias=bias), q_noise, qn_block_size)
            for features in (self.kdim, self.vdim, embed_dim, embed_dim)
        )
        self.bias_k, self.bias_v = (
            nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None for _ in range(2)
        )
        self.add_zero_attn = add_zero_attn
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights."""
        gain = 1 / math.sqrt(2) if self.qkv_same_dim else 1.0
        for layer in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(layer.weight, gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                nn.init.xavier_normal_(bias)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bsz: int,
        tgt_len: int,
        s_len: int,
        key_padding_mask: torch.Tensor | None = None,
        *others: Any,
        **options: Any,
    ) -> tuple[torch.Tensor | None, None]:
        """(bsz * tgt_len, embed_dim) of an additive mask (bsz, heads, tgt_len, src_len); no weights."""
        if not _MHAConfig.use_fussion_mha:
            return None, None
        src_len = key.shape[0] // bsz
        mask = self.dropout_module([(bsz, self.num_heads, tgt_len, src_len), query.dtype, query.device])
        layers = (self.q_proj, self.k_proj, self.v_proj)
        found = torch.ops.npu.npu_multi_head_attention(
            *(query, key, value),
            *(layer.weight for layer in layers),
            key_padding_mask,
            self.out_proj.weight,
            *(layer.bias for layer in (*layers, self.out_proj)),
            mask,
            *(self.num_heads, self.head_dim, src_len, tgt_len, self.dropout_prob, True),
        )
        return found[0], None
