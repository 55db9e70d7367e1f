"""Registration of Python functions as what computes an operator, with PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C._dynamo import eval_frame
from torch._ops import OpOverload

Function = Callable[..., Any]

_UNTRACED = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def registering(table: dict[str, Function]) -> Callable[..., Callable[[Function], Function]]:
    """A decorator for functions that compute operators: it enters each in the table, under the names it is given."""

    def named(*names: str) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            table.update(dict.fromkeys(names, function))
            return function

        return register

    return named


def implement(library: torch.library.Library, op: str | OpOverload, function: Callable[..., Any], key: str) -> None:
    """Let a function compute an operator for a dispatch key."""
    library.impl(op, untraced(function), key)


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, into which `torch.compile` does not trace.

    Between two graphs of a compiled program Dynamo looks at each Python function that is called, and would compile the
    inside of an operator. `torch.compiler.disable` does this too, and imports Dynamo, which takes seconds.
    """
    code = getattr(function, "__code__", None)  # an operator, or one that falls through to the next key, has none
    if code is not None:
        eval_frame.set_code_exec_strategy(code, _UNTRACED)
    return function
