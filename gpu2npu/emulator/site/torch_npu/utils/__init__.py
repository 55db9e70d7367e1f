"""torch_npu.utils."""

from ..npu.utils import get_cann_version
from .combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

__all__ = ["get_cann_version", "get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]
