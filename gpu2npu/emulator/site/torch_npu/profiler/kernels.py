"""The names that CANN gives to kernels, and the unit of the chip that runs them."""

from __future__ import annotations

import functools

AI_CORE, AI_VECTOR, AI_CPU = "AI_CORE", "AI_VECTOR_CORE", "AI_CPU"

# CANN's types of the operators that its tools distinguish by type; others have PyTorch's name in CANN's spelling.
_TYPES = {
    "mm": "MatMulV2",
    "addmm": "MatMulV2",
    "matmul": "MatMulV2",
    "linear": "MatMulV2",
    "linear_backward": "MatMulV2",
    "mv": "MatMulV2",
    "addmv": "MatMulV2",
    "bmm": "BatchMatMulV2",
    "baddbmm": "BatchMatMulV2",
    "addbmm": "BatchMatMulV2",
    "convolution": "Conv2D",
    "convolution_overrideable": "Conv2D",
    "convolution_backward": "Conv2DBackpropInput",
    "convolution_backward_overrideable": "Conv2DBackpropInput",
    "npu_fusion_attention": "FlashAttentionScore",
    "npu_fusion_attention_grad": "FlashAttentionScoreGrad",
    "npu_fusion_attention_backward": "FlashAttentionScoreGrad",
    "npu_fusion_attention_v3": "FlashAttentionScore",
    "npu_fusion_attention_grad_v3": "FlashAttentionScoreGrad",
    "npu_prompt_flash_attention": "PromptFlashAttention",
    "npu_incre_flash_attention": "IncreFlashAttention",
    "_to_copy": "Cast",
    "copy_": "TensorMove",
}
_CUBE = ("MatMul", "Conv", "FlashAttention")


def _base(name: str) -> str:
    return name.partition("::")[2].partition(".")[0]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.strip("_").split("_"))


@functools.cache
def kernel_type(operator: str) -> str:
    """The type, such as MatMulV2 for aten::mm."""
    base = _base(operator)
    return _TYPES.get(base) or _camel(base)


@functools.cache
def kernel_name(operator: str) -> str:
    """The name, such as aclnnMm_MatMulV2AiCore_MatMulV2 for aten::mm."""
    return f"aclnn{_camel(_base(operator))}_{kernel_type(operator)}AiCore_{kernel_type(operator)}"


def core(operator: str, on_cpu: bool) -> str:
    """The unit that runs it. An operator that the NPU lacks runs on a CPU, for which CANN's tools know AI_CPU."""
    if on_cpu:
        return AI_CPU
    return AI_CORE if kernel_type(operator).startswith(("Batch", "Prompt", "Incre", *_CUBE)) else AI_VECTOR
