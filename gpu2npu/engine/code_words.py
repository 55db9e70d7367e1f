"""The words of a file at which rules for code patterns are tried."""

from __future__ import annotations

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.python.tree.scopes import Assigned, Binding, Imported
from gpu2npu.python.tree.syntax import dotted_name
from gpu2npu.rulebook.rule import Rule


def rules_by_word(work: FileRules, key: str) -> dict[str, list[Rule]]:
    """The rules of a kind that match code, by the last part of their first name as a file spells it: also by its own
    names for it, and by those that it has from other files of the project. Empty where none of these words stands in
    the file."""
    codes, other_names = work.table.of(key), work.context.other_names
    others = {name: codes.keys() & leaves for name, leaves in other_names.items() if name in work.spelled}
    if not others and not work.rules(key):
        return {}
    found = {word: list(rules) for word, rules in codes.items()}
    given = [(name.decode(), word) for name, leaves in others.items() for word in leaves]
    given += [
        (name, word)
        for scope in work.names.file.scopes.values()
        for name, bindings in scope.bindings.items()
        for word in codes.keys() & {_stands_for(binding) for binding in bindings} - {name}
    ]
    for name, word in dict.fromkeys(given):
        found[name] = [*found.get(name, ()), *codes[word]]
    return found


def _stands_for(binding: Binding) -> str | None:
    """The last part of the dotted name that a binding gives another name."""
    if isinstance(binding, Imported):
        return binding.qualified.rpartition(".")[2]
    if isinstance(binding, Assigned) and binding.whole is not None:
        return (dotted_name(binding.whole) or "").rpartition(".")[2]
    return None
