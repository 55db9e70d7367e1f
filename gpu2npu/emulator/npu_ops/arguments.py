"""Operators of many arguments, as functions of one namespace of them: the schema has their names and defaults."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import torch

from gpu2npu.emulator.device.dispatch.signature import overload

# The arguments of a call by name, those that it leaves out with the defaults of the schema.
Arguments: TypeAlias = SimpleNamespace
Register: TypeAlias = Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]

# Options that change no result here: how fast, from which memory, or what the operator returned for its gradient.
HARMLESS = frozenset(
    {
        *("inner_precise", "inner_precision_mode", "comm_turn", "comm_mode", "sync", "parallel", "gen_mask_parallel"),
        *("tuning_config", "layout", "pin_memory", "base_addr_aligned_kb", "keep_format"),
        *("atan_sub_flag", "softmax_in", "numels", "softmax_layout", "restore_shape"),
    }
)


def by_schema(register: Register, *names: str) -> Callable[[Callable[[Arguments], Any]], Callable[[Arguments], Any]]:
    """Register a function of the arguments of operators, bound by the schema of each, by `kernel` or the like."""

    def decorate(body: Callable[[Arguments], Any]) -> Callable[[Arguments], Any]:
        for name in names:
            full = name if "::" in name else f"npu::{name}"
            register(name)(functools.wraps(body)(functools.partial(_call, body, full)))
        return body

    return decorate


def _call(body: Callable[[Arguments], Any], operator: str, /, *args: Any, **kwargs: Any) -> Any:
    given = bound(operator, args, kwargs)
    for name, default in _unread(body, operator).items():
        value = getattr(given, name)
        if _differs(value, default):
            shown = f" {value!r}" if isinstance(value, (bool, int, float, str)) else ""
            called = operator.removeprefix("npu::").partition(".")[0]
            raise NotImplementedError(
                f"torch_npu.{called}: the emulated NPU does not compute {name}{shown}, only the default, {default!r}"
            )
    return body(given)


@functools.cache
def _unread(body: Callable[[Arguments], Any], operator: str) -> dict[str, Any]:
    """The options that would be ignored, with their defaults: those that the function does not read."""
    known = HARMLESS | options_read(body)
    return {name: default for name, default in _described(operator)[1].items() if name not in known}


def _differs(value: Any, default: Any) -> bool:
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return False
    return default is None or isinstance(value, (np.ndarray, torch.Tensor)) or bool(value != default)


@functools.cache
def options_read(body: Callable[[Arguments], Any]) -> frozenset[str]:
    """The names of arguments that a function reads by its code, or a function of arguments that it calls does."""
    (function,) = ast.parse(inspect.getsource(body)).body
    assert isinstance(function, ast.FunctionDef)
    given, read = function.args.args[0].arg, set[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == given:
            read.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # of getattr, or what it is renamed to
            read.add(node.value)
        elif isinstance(node, ast.Name) and node.id != body.__name__:
            found = body.__globals__.get(node.id)
            if isinstance(found, dict):  # names of another version
                read |= found.keys()
            elif inspect.isfunction(found) and "Arguments" in found.__annotations__.values():
                read |= options_read(found)
    return frozenset(read)


def bound(operator: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments:
    """The arguments of a call of an operator, `npu::npu_rms_norm`."""
    names, defaults = _described(operator)
    return SimpleNamespace(**{**defaults, **dict(zip(names, args, strict=False)), **kwargs})


@functools.cache
def _described(operator: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of an operator's arguments, and the defaults of those that have one."""
    arguments = overload(operator)._schema.arguments
    defaults = {each.name: each.default_value for each in arguments if each.has_default_value()}
    return tuple(each.name for each in arguments), defaults
