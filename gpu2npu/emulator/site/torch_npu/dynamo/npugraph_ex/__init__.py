"""The graph compiler npugraph_ex, which records graphs of `torch.compile` for the NPU."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from gpu2npu.emulator.device import compiling
from torch_npu.npu._unsupported import unsupported

from ..torchair import CompilerConfig, get_compiler

__all__ = ["CompilerConfig", "compile_fx", "get_compiler", "get_npu_backend", "logger", "register_replacement"]

logger = logging.getLogger("npugraph_ex")
register_replacement = unsupported("npugraph_ex.register_replacement")


def compile_fx(
    graph: Any, inputs: Any, compiler_config: CompilerConfig | None = None, **options: Any
) -> Callable[..., Any]:
    """A graph as a function that runs it operator by operator."""
    return compiling.run_graph("npugraph_ex", graph, inputs)


def get_npu_backend(*, compiler_config: CompilerConfig | None = None, **options: Any) -> Callable[..., Any]:
    """A back end for `torch.compile`."""
    return functools.partial(compiling.run_graph, "npugraph_ex")
