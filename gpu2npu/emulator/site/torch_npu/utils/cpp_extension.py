"""Extensions in C++ for programs on NPUs: they see PyTorch's headers, and CANN's are not here."""

from __future__ import annotations

from typing import Any

from torch.utils import cpp_extension


def NpuExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Any:  # noqa: N802
    """A `setuptools.Extension` with PyTorch's headers and libraries, to be built by `torch.utils.cpp_extension`.

    Args:
        name: The module's name.
        sources: The files.
        *args: What setuptools takes beside.
        **kwargs: The same; folders and libraries are added to those that are given.
    """
    return cpp_extension.CppExtension(name, sources, *args, **kwargs)
