"""An option that takes one of some words, and names the nearest for a word that is none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpu2npu.near_names import did_you_mean

if TYPE_CHECKING:
    _Words = click.Choice[str]
else:
    _Words = click.Choice


class NearChoice(_Words):
    """As click's Choice, with a question at the end of its refusal where a word is near."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(super().convert(value, param, ctx))
        except click.BadParameter as error:
            hint = did_you_mean(str(value), self.choices)
            self.fail(f"{error.message} {hint[:1].upper()}{hint[1:]}".strip(), param, ctx)
