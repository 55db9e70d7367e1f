"""A NumPy emulation of an Ascend NPU as a PyTorch device. Imports nothing from the rest of gpu2npu."""
