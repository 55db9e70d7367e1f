"""The graph compiler torchair, which compiles graphs of `torch.compile` for the NPU; also imported as `torchair`.

Options are checked by name and value, as torchair checks them, and change nothing here.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from gpu2npu.emulator.device import compiling
from torch_npu.npu._unsupported import unsupported

from .configs.compiler_config import CompilerConfig

__all__ = [
    "CompilerConfig",
    "dynamo_export",
    "get_compiler",
    "get_npu_backend",
    "logger",
    "patch_for_hcom",
    "register_fx_node_ge_converter",
    "register_replacement",
    "use_internal_format_weight",
]

logger = logging.getLogger("torchair")
dynamo_export = unsupported("torchair.dynamo_export")
register_fx_node_ge_converter = unsupported("torchair.register_fx_node_ge_converter")
npu_format_cast_via_cpu = unsupported("torchair.npu_format_cast_via_cpu")
register_replacement = unsupported("torchair.register_replacement")


def get_compiler(compiler_config: CompilerConfig | None = None) -> Callable[..., Any]:
    """A compiler of graphs for `aot_autograd`, which runs them operator by operator.

    Raises:
        TypeError: The options are not a CompilerConfig.
    """
    _check(compiler_config)
    return lambda graph, inputs: graph


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    aot_config: Any = None,
    custom_decompositions: dict[Any, Any] | None = None,
) -> Callable[..., Any]:
    """A back end for `torch.compile`.

    Raises:
        TypeError: The options are not a CompilerConfig.
    """
    _check(compiler_config)
    return functools.partial(compiling.run_graph, "torchair")


def patch_for_hcom() -> None:
    """Nothing: collectives are traced as they are."""


def use_internal_format_weight(model: Any) -> None:
    """Nothing: weights are kept in the format ND."""


def _check(config: CompilerConfig | None) -> None:
    if config is not None and not isinstance(config, CompilerConfig):
        raise TypeError(f"compiler_config must be a CompilerConfig, not a {type(config).__name__}")
