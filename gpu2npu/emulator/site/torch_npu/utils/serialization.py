"""Saving in the background."""

from __future__ import annotations

import threading
from typing import Any

import torch

__all__ = ["load", "save", "save_async"]

load, save = torch.load, torch.save


def save_async(
    obj: object,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    model: torch.nn.Module | None = None,
) -> threading.Thread:
    """`torch.save` by a thread, which is returned; values are those of this moment."""
    kept = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().cpu().clone(), obj)
    thread = threading.Thread(target=torch.save, args=(kept, f))
    thread.start()
    return thread
