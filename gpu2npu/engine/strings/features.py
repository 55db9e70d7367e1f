"""Features of NVIDIA's own that a comparison decides on."""

from __future__ import annotations

import ast
import re

from gpu2npu.engine.strings.places import StringPlace
from gpu2npu.python.tree.syntax import last_name

# In names of what only NVIDIA's GPUs, or libraries for them, do.
_FEATURE = re.compile(r"(^|_)(ipc|nvlink|nvshmem|nvtx|gds|tensorrt|trt)(_|$)", re.IGNORECASE)


def enables_feature(comparison: ast.Compare, place: StringPlace) -> bool:
    """Return whether a comparison decides on a feature of NVIDIA's own: `use_cuda_ipc = backend == "nccl"`."""
    child: ast.AST = comparison
    parent = place.parent(child)
    while isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        child, parent = parent, place.parent(parent)
    if isinstance(parent, ast.keyword):
        return _FEATURE.search(parent.arg or "") is not None
    targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
    return any(_FEATURE.search(last_name(target) or "") for target in targets if target is not None)
