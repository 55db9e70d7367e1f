"""The kinds of matches, a module for each: all that is to know about one but how its edits are made."""

from typing import Any

from gpu2npu.rulebook.kinds.argument import ArgumentMatch
from gpu2npu.rulebook.kinds.attribute import AttributeMatch
from gpu2npu.rulebook.kinds.base import Evidence, Match
from gpu2npu.rulebook.kinds.call import CallMatch
from gpu2npu.rulebook.kinds.class_ import ClassMatch
from gpu2npu.rulebook.kinds.code import CodeMatch
from gpu2npu.rulebook.kinds.command import CommandMatch
from gpu2npu.rulebook.kinds.decorator import DecoratorMatch
from gpu2npu.rulebook.kinds.environment import EnvironmentMatch
from gpu2npu.rulebook.kinds.import_ import ImportMatch
from gpu2npu.rulebook.kinds.member import MemberMatch
from gpu2npu.rulebook.kinds.method import MethodMatch
from gpu2npu.rulebook.kinds.name import NameMatch
from gpu2npu.rulebook.kinds.pattern import PatternMatch
from gpu2npu.rulebook.kinds.setting import SettingMatch
from gpu2npu.rulebook.kinds.string import StringMatch

_ALL: tuple[type[Match], ...] = (
    NameMatch,
    MethodMatch,
    AttributeMatch,
    StringMatch,
    PatternMatch,
    CallMatch,
    ArgumentMatch,
    ImportMatch,
    EnvironmentMatch,
    CommandMatch,
    CodeMatch,
    MemberMatch,
    ClassMatch,
    DecoratorMatch,
    SettingMatch,
)
# The kinds by the key that only entries of the kind have.
KINDS = {kind.key: kind for kind in _ALL}


def kind_of(entry: dict[str, Any]) -> type[Match]:
    """The kind of match that an entry of a rule file is."""
    return next(kind for key, kind in KINDS.items() if key in entry)


__all__ = [
    "KINDS",
    "ArgumentMatch",
    "AttributeMatch",
    "CallMatch",
    "ClassMatch",
    "CodeMatch",
    "CommandMatch",
    "DecoratorMatch",
    "EnvironmentMatch",
    "Evidence",
    "ImportMatch",
    "Match",
    "MemberMatch",
    "MethodMatch",
    "NameMatch",
    "PatternMatch",
    "SettingMatch",
    "StringMatch",
    "kind_of",
]
