"""The limits of the NPU that raise, as `gpu2npu.support.limits` states them, for the chip and release in use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from gpu2npu.emulator.device.dispatch import support_table
from gpu2npu.emulator.device.dispatch.signature import Signature
from gpu2npu.emulator.soc import current_soc
from gpu2npu.support.limits import RAISES, CallFacts, Limit, chip_family, limit, limits_of
from gpu2npu.support.releases import RELEASES

# A chip that the facts do not name, the Ascend310B, is like this one.
_OTHER_CHIP = "310P"


class LimitError(RuntimeError):
    """A call that the NPU refuses and the CPU takes."""


def refused(name: str, given: CallFacts) -> Limit | None:
    """The limit with which a call of an API or operator raises; None where it does not."""
    met = limit(name, given, support_table.version() or RELEASES[-1], _family(current_soc().name))
    return met if met is not None and met.outcome == RAISES else None


@functools.cache
def refused_dtypes(operator: str) -> Mapping[str, Limit]:
    """The dtypes ("float64") with which an operator ("aten::mm") raises, whatever else it is given."""
    named = {dtype for each in limits_of(operator) for dtype in each.dtypes}
    met = {dtype: refused(operator, CallFacts((dtype,))) for dtype in named}
    return {dtype: each for dtype, each in met.items() if each is not None}


def argument_check(signature: Signature) -> Callable[[list[Any]], None] | None:
    """A function that raises for an argument that the NPU does not take; None for operators without such a limit.

    It is called with the values of the arguments, in the order of the schema.
    """
    name = signature.op._schema.name
    wanted = {argument for each in limits_of(name) for argument in (*(each.arguments or ()), *(each.unless or ()))}
    positions = {
        position: argument.name
        for position, argument in enumerate(signature.op._schema.arguments)
        if argument.name in wanted
    }
    if not positions:
        return None

    def check(values: list[Any]) -> None:
        given = tuple((argument, str(values[at])) for at, argument in positions.items() if at < len(values))
        refuse(name, given)

    return check


def refuse(name: str, given: tuple[tuple[str, str], ...]) -> None:
    """Raise LimitError where the NPU does not take arguments of an API or operator, as they are written."""
    message = _refusal(name, given)
    if message is not None:
        raise LimitError(message)


@functools.lru_cache(1024)
def _refusal(name: str, given: tuple[tuple[str, str], ...]) -> str | None:
    met = refused(name, CallFacts(arguments=dict(given)))
    if met is None:
        return None
    release = f"torch_npu {support_table.release()}: " if met.lacks else ""
    return f"{name}: {release}{met.evidence}. {met.advice[:1].upper()}{met.advice[1:]}."


def _family(soc: str) -> str:
    try:
        return chip_family(soc)
    except ValueError:
        return _OTHER_CHIP
