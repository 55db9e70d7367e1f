"""The header that a rank sends the others about a collective or a message before its bytes move (see `agreement`)."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpu2npu.emulator.device.visible_npus import visible_npus
from gpu2npu.emulator.distributed import agreement
from gpu2npu.emulator.shapes import collectives

Tensors = Sequence[torch.Tensor]

HEADERS = 0  # the tag of messages' headers; see `tag` for that of the messages


@dataclass(frozen=True)
class Call:
    """One collective: its name, what the other ranks are sent, whether the caller waits at once, and whether its bytes
    move, which those of a shapes-only run may not."""

    collective: str
    header: torch.Tensor
    is_awaited: bool
    moves: bool


def describe(
    what: str, tensors: Tensors, size: int, is_awaited: bool, sent: Tensors = (), received: Tensors = ()
) -> Call:
    """Describe a collective of `size` ranks.

    Args:
        what: Its name, and what else must be the same on all ranks.
        tensors: Of the dtype that must be the same; their shapes are shown.
        size: How many ranks there are.
        is_awaited: Whether the caller waits for it at once.
        sent: (ranks,), what goes to each rank; all the tensors to every rank when there is nothing.
        received: (ranks,), what is expected from each.
    """
    everything = sum(tensor.nbytes for tensor in tensors)
    counts = [
        tuple(part.nbytes for part in parts) if len(parts) == size else (everything,) * size
        for parts in (sent, received)
    ]
    shapes = f"{_shapes(tensors)}{collectives.line()}"
    header = agreement.header(f"{what}{_dtype(tensors)}", shapes, _device(tensors), *counts)
    return Call(what.split()[0], header, is_awaited, collectives.moves(tensors))


def reduction(opts: Any) -> str:
    """The name of what is done with the ranks' numbers."""
    return str(getattr(opts.reduceOp, "op", opts.reduceOp).name)


def _dtype(tensors: Tensors) -> str:
    """The dtype of the first tensor, as " of float32"; HCCL moves bool as uint8."""
    names = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors[:1]]
    return "".join(f" of {'uint8' if name == 'bool' else name}" for name in names)


def _device(tensors: Tensors) -> str:
    """A name of the NPU that the first tensor is on, which no other NPU has; "" where there is none."""
    index = next((tensor.get_device() for tensor in tensors if tensor.device.type == "npu"), -1)
    return "" if index < 0 else f"{_host()}:{visible_npus()[index]}"


@functools.cache
def _host() -> str:
    # Jobs of several machines that are tried on one have a number for each (torchrun's GROUP_RANK).
    name = f"{socket.gethostname()} {os.environ.get('GROUP_RANK', '')}"
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _shapes(tensors: Tensors) -> str:
    return ", ".join(str(list(tensor.shape)) for tensor in tensors)


def shares(tensors: Tensors, size: int) -> Tensors:
    """As many bytes as one rank has of tensors that hold the parts of all of them, for each rank."""
    share = sum(tensor.nbytes for tensor in tensors) // size
    return [torch.empty(share, dtype=torch.uint8, device="meta")] * size


def message(tensors: Tensors) -> torch.Tensor:
    """The header of a message."""
    (tensor,) = tensors
    shapes = f"{_shapes(tensors)}{collectives.line()}"
    return agreement.header(f"message{_dtype(tensors)}", shapes, "", *[(tensor.nbytes, tensor.nbytes)] * 2)


def tag(moved: Tensors, number: int) -> int:
    """The tag of a message: one of another size, or of another number between the two ranks, never meets its memory."""
    return 1 + (moved[0].numel() * 1_000_003 + number) % 0x7FFFFFFE
