"""The torch APIs that a file uses: what the NPU lacks, refuses or computes otherwise."""
