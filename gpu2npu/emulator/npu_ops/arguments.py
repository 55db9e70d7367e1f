"""Operators of many arguments, as functions of one namespace of them: the schema has their names and defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

from gpu2npu.emulator.device.dispatch.signature import overload

# The arguments of a call by name, those that it leaves out with the defaults of the schema.
Arguments: TypeAlias = SimpleNamespace
Register: TypeAlias = Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]


def by_schema(register: Register, *names: str) -> Callable[[Callable[[Arguments], Any]], Callable[[Arguments], Any]]:
    """Register a function of the arguments of operators, bound by the schema of each, by `kernel` or the like."""

    def decorate(body: Callable[[Arguments], Any]) -> Callable[[Arguments], Any]:
        for name in names:
            full = name if "::" in name else f"npu::{name}"
            register(name)(functools.wraps(body)(functools.partial(_call, body, full)))
        return body

    return decorate


def _call(body: Callable[[Arguments], Any], operator: str, /, *args: Any, **kwargs: Any) -> Any:
    return body(bound(operator, args, kwargs))


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
