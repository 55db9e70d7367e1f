"""The command `python -m torch_npu.utils.collect_env`, for what a report of a fault says about the machine."""

# mypy: disable-error-code="attr-defined"
# torch.npu exists where torch_npu has been imported.
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch.utils import collect_env

import torch_npu


def get_cann_version() -> str:
    """The version of CANN in ASCEND_HOME_PATH; "not known" without one."""
    info = Path(os.environ.get("ASCEND_HOME_PATH", ""), "version.info")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.partition("=")[2] for line in lines if line.lower().startswith("version=")), "not known")


def get_torch_npu_version() -> str:
    """The version of the imitated torch_npu."""
    return str(torch_npu.__version__)


def get_torch_npu_install_path() -> str:
    """The folder of torch_npu."""
    return str(Path(torch_npu.__file__).parent)


def check_path_owner_consistent(path: str) -> None:
    """Check that a path exists and belongs to this user, or to root.

    Raises:
        RuntimeError: It does not exist or is another user's.
    """
    if not Path(path).exists():
        raise RuntimeError(f"The path does not exist: {path}")
    if Path(path).stat().st_uid not in (os.getuid(), 0):
        raise RuntimeError(f"The path does not belong to the current user: {path}")


def check_directory_path_readable(path: str) -> None:
    """Check that a path can be read.

    Raises:
        RuntimeError: It does not exist, is another user's or cannot be read.
    """
    check_path_owner_consistent(path)
    if not os.access(path, os.R_OK):
        raise RuntimeError(f"The path permission check failed: {path}")


def get_env_info() -> Any:
    """Return what PyTorch finds out about the machine."""
    return collect_env.get_env_info()


def pretty_str(envinfo: Any) -> str:
    """PyTorch's report, and below it torch_npu, its NPUs and CANN."""
    count = torch.npu.device_count()
    chips = ", ".join(sorted({torch.npu.get_device_name(index) for index in range(count)}))
    return (
        f"{collect_env.pretty_str(envinfo)}\n\nTorch_npu: {get_torch_npu_version()} (emulated by gpu2npu)\n"
        f"NPUs: {count} ({chips})\nCANN: {get_cann_version()}"
    )


def get_pretty_env_info() -> str:
    """The whole report."""
    return pretty_str(get_env_info())


def main() -> None:
    """Print the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
