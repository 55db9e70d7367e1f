"""torch_npu.contrib: modules and functions that run well on NPUs, and the migration of CUDA scripts as they run."""
