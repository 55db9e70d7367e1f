"""The places of a program's files on Huawei ModelArts; made by `gpu2npu --modelarts`."""

from .modelarts_path_manager import mapped

__all__ = ["mapped"]
