"""The options of torchair and npugraph_ex: a tree of names, each with its default and its values, null for any.

Names and values of `options.json` are those of `torch_npu/dynamo/torchair/configs` in torch_npu 2.13.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["CompilerConfig"]

Tree = dict[str, Any]
OPTIONS: Tree = json.loads(Path(__file__).with_name("options.json").read_text(encoding="utf-8"))


class Option:
    """The `value` of an option."""

    def __init__(self, name: str, default: Any, allowed: list[Any] | None) -> None:
        self._name, self._default, self._allowed = name, default, allowed
        self._value = default

    @property
    def value(self) -> Any:
        """The value that was set, or the default."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        if self._allowed is not None and value not in self._allowed and value != self._default:
            raise ValueError(f"{value} not in optional list {self._allowed} of {self._name}")
        self._value = value


class Options:
    """A branch of the tree: `config.debug.run_eagerly = True` sets an option, other names are refused."""

    _name: str

    def __init__(self, tree: Tree, name: str) -> None:
        made = {
            key: Options(value, key) if isinstance(value, dict) else Option(key, *value) for key, value in tree.items()
        }
        vars(self).update(made, _name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(vars(self).get(name), Option):
            known = [each for each in vars(self) if each != "_name"]
            raise ValueError(f"{self._name} has no option {name}, all options {known}")
        vars(self)[name].value = value


class CompilerConfig(Options):
    """All options of torchair."""

    def __init__(self) -> None:
        super().__init__(OPTIONS, "CompilerConfig")
