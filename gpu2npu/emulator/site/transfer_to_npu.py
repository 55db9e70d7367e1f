"""The name under which scripts for old releases import `torch_npu.contrib.transfer_to_npu`."""

from torch_npu.contrib import transfer_to_npu as _  # type: ignore[import-not-found]  # noqa: F401
