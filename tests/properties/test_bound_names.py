"""A migrated file reads no name that it does not bind, however it came by the API."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Iterator

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.kinds.argument import ArgumentMatch
from gpu2npu.kinds.call import CallMatch
from gpu2npu.kinds.name import NameMatch
from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.rule import Rule

RULEBOOK = load_rulebook()

# What a file may say of the plugin already.
PLUGINS = ("", "import torch_npu\n", "import torch_npu as plugin\n", "from torch_npu import npu as plugin\n")
USES = ("use({0})", "use({0}())", "use({0}(use))", "use({0}(use, device=use))", "use({0}.some.member)")


def api(rule: Rule) -> str | None:
    """The name of torch that a rule writes another one for."""
    if rule.then.rename is None and rule.then.replace is None:
        return None
    match rule.match:
        case NameMatch(name) | CallMatch(call=name) | ArgumentMatch(of=name):
            return name.replace("*", "zeros") if name.startswith("torch.") else None  # of a package, any function
    return None


APIS = {
    (name, version)
    for rule in RULEBOOK.rules
    if (name := api(rule)) is not None
    for version in {rule.since or rule.until or "2.1.0"}
} | {(f"torch.cuda.{name}", "2.1.0") for name in ("is_available", "amp.autocast", "nvtx.mark", "comm.gather", "nccl")}


def imports(name: str) -> Iterator[tuple[str, str]]:
    """The ways to come by a name: an import, and what the name is then spelled."""
    parts = name.split(".")
    for split in range(1, len(parts)):
        owner, rest = ".".join(parts[:split]), ".".join(parts[split:])
        yield f"import {owner}", name
        yield f"import {owner} as alias", f"alias.{rest}"
        yield f"from {owner} import {parts[split]}", rest
        yield f"from {owner} import {parts[split]} as alias", ".".join(("alias", *parts[split + 1 :]))


def programs(name: str) -> Iterator[str]:
    for number, (statement, spelled) in enumerate(imports(name)):
        uses = [use.format(spelled) for use in USES]
        yield "\n".join((f"{PLUGINS[number % 4]}{statement}", "def use(*args, **options): ...", *uses, ""))
        inside = "".join(f"        {use}\n" for use in uses)
        before = "class A:\n    def first(x, use):\n        import torch\n    def second(x, use):\n"
        yield f"{before}        {statement}\n{inside}"


def unbound(text: str) -> set[str]:
    """The names that some scope reads and none binds."""
    module = symtable.symtable(text, "train.py", "exec")
    bound, read, pending = set(dir(builtins)), set(), [module]
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        for symbol in scope.get_symbols():
            if scope is module or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    read.add(symbol.get_name())
    return read - bound


def migrate(text: str, version: str) -> str:
    migrated = migrate_source(text.encode(), "train.py", RULEBOOK, ProjectContext(version))
    assert migrated.failure is None
    return text if migrated.content is None else migrated.content.decode()


@pytest.mark.parametrize(("name", "version"), sorted(APIS))
def test_no_unbound_name(name: str, version: str) -> None:
    for text in programs(name):
        assert not unbound(text), text
        after = migrate(text, version)
        assert not unbound(after), after
        assert migrate(after, version) == after


def test_an_unbound_name_is_noticed() -> None:
    assert unbound("from torch import cuda\ndef f():\n    global x\n    import y as x\nx, y, npu\n") == {"y", "npu"}
    assert unbound("def f():\n    import torch\ndef g():\n    return torch\n") == {"torch"}
