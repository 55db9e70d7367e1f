"""torch_npu's back ends of `torch.compile`; each runs its graphs operator by operator (`device/compiling.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gpu2npu.emulator.device import compiling

__all__: list[str] = []

_npu_backend_entrypoint: Callable[..., Any] = functools.partial(compiling.run_graph, "npu")
_npugraph_ex_backend_entrypoint: Callable[..., Any] = functools.partial(compiling.run_graph, "npugraph_ex")
_npugraphs_backend_entrypoint: Callable[..., Any] = functools.partial(compiling.run_graph, "npugraphs")
