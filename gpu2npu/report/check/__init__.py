"""The outcome of `gpu2npu check` and the formats of its report."""
