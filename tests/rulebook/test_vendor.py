"""Custom rule files of the vendor's tool: each kind does in a migration what it does there, or less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.rulebook import RuleError, load_rulebook

# The sample of the CANN guide's section on custom rule files.
GUIDE = {
    "rules": {
        "ArgsModifyRule": [
            {"func_name": "name1", "arg_idx": 0, "arg_new": "agrs0"},
            {"func_name": "name2", "arg_idx": 0, "arg_new": "agrs0"},
        ],
        "FuncNameModifyRule": [{"old_name": "func", "new_name": "new_func"}],
        "ModuleNameModifyRule": [{"old_name": "module", "new_name": "new_module", "parent_module": "parent_module"}],
    }
}


def write(folder: Path, document: object, name: str = "custom_rules.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def migrate(folder: Path, code: str, kind: str, **entry: Any) -> str:
    path = write(folder, {"rules": {kind: [entry]}})
    result = migrate_source(code.encode(), "a.py", load_rulebook([path]), ProjectContext())
    assert result.failure is None
    return code if result.content is None else result.content.decode()


def test_the_sample_of_the_guide(tmp_path: Path) -> None:
    rulebook = load_rulebook([write(tmp_path, GUIDE)])
    own = [rule.id for rule in rulebook.rules if not rule.builtin]
    assert own == [
        "custom-rules-argument-1",
        "custom-rules-argument-2",
        "custom-rules-function-1",
        "custom-rules-module-1",
    ]
    before = "import parent_module\nname1(x)\nname2(y, 2)\nfunc()\nparent_module.module.f()\n"
    after = "import parent_module\nname1(agrs0)\nname2(agrs0, 2)\nnew_func()\nparent_module.new_module.f()\n"
    result = migrate_source(before.encode(), "a.py", rulebook, ProjectContext())
    assert result.content == after.encode()
    assert {change.rule for change in result.changes} == set(own)


@pytest.mark.parametrize(
    ("entry", "before", "after"),
    [
        ({"func_name": "func", "arg_idx": 0}, "func('gpu', x)", 'func("npu:0", x)'),
        ({"func_name": "func", "arg_idx": 0}, "box.func('gpu', x)", 'box.func("npu:0", x)'),
        ({"func_name": "func", "arg_idx": 0}, "funcs('gpu', x)", "funcs('gpu', x)"),
        ({"func_name": "func", "arg_idx": 2}, "func('gpu', x)", "func('gpu', x)"),
        ({"func_name": "func", "arg_keyword": "at"}, "func(x, at='gpu')", 'func(x, at="npu:0")'),
        ({"func_name": "func", "arg_keyword": "at"}, "func(x, 'gpu')", "func(x, 'gpu')"),
        ({"func_name": "func", "arg_idx": 1, "arg_keyword": "at"}, "func(x, 1)", 'func(x, at="npu:0")'),
        (
            {"func_name": "lib.func", "arg_idx": 0},
            "from lib import func\nfunc(1)",
            'from lib import func\nfunc("npu:0")',
        ),
        ({"func_name": "lib.func", "arg_idx": 0}, "import other\nother.func(1)", "import other\nother.func(1)"),
        ({"func_name": "func", "arg_keyword": "at", "white_list": ["CPU"]}, "func(at='cpu')", "func(at='cpu')"),
        ({"func_name": "func", "arg_keyword": "at", "white_list": ["^at=dev"]}, "func(at=dev(0))", "func(at=dev(0))"),
        ({"func_name": "func", "arg_keyword": "at", "white_list": ["cpu"]}, "func(at='gpu')", 'func(at="npu:0")'),
    ],
)
def test_arguments(tmp_path: Path, entry: dict[str, Any], before: str, after: str) -> None:
    assert migrate(tmp_path, before, "ArgsModifyRule", arg_new='"npu:0"', **entry) == after


def test_an_empty_new_argument_deletes_the_old_one(tmp_path: Path) -> None:
    assert migrate(tmp_path, "func(1, x)", "ArgsModifyRule", func_name="func", arg_idx=1, arg_new="") == "func(1)"


def test_a_new_argument_with_braces_is_no_template(tmp_path: Path) -> None:
    new = "{0: '{args}'}"
    assert migrate(tmp_path, "func(1)", "ArgsModifyRule", func_name="func", arg_idx=0, arg_new=new) == f"func({new})"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("old()", "new()"),
        ("a.b.old(1)", "a.b.new(1)"),
        ("a.old.b(old())", "a.old.b(new())"),
        ("f().long().old()", "f().long().new()"),
        ("older()\nold = 3", "older()\nold = 3"),
    ],
)
def test_functions(tmp_path: Path, before: str, after: str) -> None:
    assert migrate(tmp_path, before, "FuncNameModifyRule", old_name="old", new_name="new") == after


def test_functions_by_their_full_names(tmp_path: Path) -> None:
    before = "import lib.part as p\nfrom lib.part import old\np.old()\nold(2)\nother.old()\n"
    after = "import lib.part as p\nfrom lib.part import new\np.new()\nnew(2)\nother.old()\n"
    assert migrate(tmp_path, before, "FuncNameModifyRule", old_name="lib.part.old", new_name="new") == after


def test_functions_with_their_module(tmp_path: Path) -> None:
    entry = {"new_name": "lib.npu.new", "replace_module": True}
    before = "import x\nold()\nx.old(1, k=2)\n"
    after = "import x\nlib.npu.new()\nlib.npu.new(1, k=2)\n"
    assert after in migrate(tmp_path, before, "FuncNameModifyRule", old_name="old", **entry).replace(
        "import lib.npu\n", ""
    )
    before = "from lib.gpu import old\nold(2)\n"
    after = "from lib.npu import new\nnew(2)\n"
    assert migrate(tmp_path, before, "FuncNameModifyRule", old_name="lib.gpu.old", **entry) == after


def test_modules(tmp_path: Path) -> None:
    before = "import lib.part.gpu as g\nimport lib.part as p\ng.f()\np.gpu.f()\ngpu.f()\nother.gpu.f()\n"
    after = "import lib.part.npu as g\nimport lib.part as p\ng.f()\np.npu.f()\ngpu.f()\nother.gpu.f()\n"
    entry = {"old_name": "gpu", "new_name": "npu", "parent_module": "lib.part"}
    assert migrate(tmp_path, before, "ModuleNameModifyRule", **entry) == after


STRINGS = "a = 'old'\nf(b=\"old\")  # old\n'''an old doc'''\nf('old:%s' % x)\ng = f'old{x}'\nimport old\n"


@pytest.mark.parametrize("entry", [{}, {"strict": True}])
def test_whole_strings(tmp_path: Path, entry: dict[str, Any]) -> None:
    after = STRINGS.replace("a = 'old'", "a = 'new'").replace('b="old"', 'b="new"')
    assert migrate(tmp_path, STRINGS, "ReplaceStringRule", str_old="old", str_new="new", **entry) == after


def test_parts_of_strings(tmp_path: Path) -> None:
    after = STRINGS.replace("old", "new")
    for unchanged in ("# new", "an new doc", "import new"):
        after = after.replace(unchanged, unchanged.replace("new", "old"))
    got = migrate(tmp_path, STRINGS, "ReplaceStringRule", str_old="old", str_new="new", strict=False)
    assert got == after
    entry = {"str_old": "a.b", "str_new": "\\1", "strict": False}
    assert migrate(tmp_path, "x = r'a.b acb'", "ReplaceStringRule", **entry) == "x = r'\\1 acb'"


def test_attributes(tmp_path: Path) -> None:
    before = "a = f()\na.old\nf().old.x\na.old()\nold\nolder.b\n"
    after = "a = f()\na.new\nf().new.x\na.new()\nold\nolder.b\n"
    assert migrate(tmp_path, before, "ReplaceAttributeRule", old_name="old", new_name="new") == after


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"NoSuchRule": []}, "$.rules.NoSuchRule: is not a kind of rule of the vendor's tool; known: ArgsModifyRule, "),
        ({"FuncNameModifyRule": {}}, "$.rules.FuncNameModifyRule: must be a list of rules, not an object."),
        ({"FuncNameModifyRule": ["x"]}, "$.rules.FuncNameModifyRule[0]: must be an object, not a text."),
        (
            {"FuncNameModifyRule": [{"old_name": "a", "new_name": "class"}]},
            "$.rules.FuncNameModifyRule[0].new_name: 'class' is not a name in Python, where 'class' is a keyword.",
        ),
        ({"FuncNameModifyRule": [{"old_name": "a"}]}, "$.rules.FuncNameModifyRule[0]: lacks the key 'new_name'."),
        (
            {"FuncNameModifyRule": [{"old_name": "a", "new_name": "b"}, {"old_name": "a", "new": "b"}]},
            "$.rules.FuncNameModifyRule[1].new: is an unknown key; allowed here: old_name, new_name, replace_module.",
        ),
        (
            {"FuncNameModifyRule": [{"old_name": "a", "new_name": "b", "replace_module": "yes"}]},
            "$.rules.FuncNameModifyRule[0].replace_module: must be true or false, not a text.",
        ),
        ({"FuncNameModifyRule": [{"old_name": "a", "new_name": "b.c"}]}, "new_name: 'b.c' has dots, which needs"),
        ({"FuncNameModifyRule": [{"old_name": "a b", "new_name": "c"}]}, "old_name: 'a b' is not a name"),
        (
            {"ArgsModifyRule": [{"func_name": "f", "arg_idx": True, "arg_new": "x"}]},
            "$.rules.ArgsModifyRule[0].arg_idx: must be an integer, not true or false.",
        ),
        ({"ArgsModifyRule": [{"func_name": "f", "arg_new": "x"}]}, "the rule says no argument; give arg_idx"),
        ({"ArgsModifyRule": [{"func_name": "f", "arg_idx": 0, "arg_new": "x("}]}, "arg_new: 'x(' is not Python"),
        (
            {"ArgsModifyRule": [{"func_name": "f", "arg_idx": 0, "arg_new": "x", "white_list": ["("]}]},
            "$.rules.ArgsModifyRule[0].white_list[0]: '(' is not a regular expression",
        ),
        (
            {"ArgsModifyRule": [{"func_name": "f", "arg_idx": 0, "arg_new": "x", "white_list": [None]}]},
            "white_list[0]: must be a text, not null",
        ),
        (
            {"ModuleNameModifyRule": [{"old_name": "a", "new_name": "b"}]},
            "$.rules.ModuleNameModifyRule[0]: lacks the key 'parent_module'.",
        ),
        ({"ReplaceStringRule": [{"str_old": "", "str_new": "b"}]}, "str_old: must be a text of one line"),
        ({"ReplaceAttributeRule": [{"old_name": "a.b", "new_name": "c"}]}, "'a.b' is not a name without dots"),
    ],
)
def test_refusals(tmp_path: Path, rules: dict[str, Any], message: str) -> None:
    path = write(tmp_path, {"rules": rules})
    with pytest.raises(RuleError) as caught:
        load_rulebook([path])
    text = str(caught.value)
    assert text.startswith(f"{path}: $.rules.") and message in text
    assert "\n" not in text and text.endswith(".")


def test_another_key_at_the_top(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"\$\.roles: is unknown in a rule file of the vendor's tool"):
        load_rulebook([write(tmp_path, {**GUIDE, "roles": {}})])


def test_two_files_of_one_name_clash_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = [write(tmp_path, GUIDE), write(tmp_path / "other", GUIDE)]
    with pytest.raises(RuleError, match=r"'custom-rules-argument-1' is in .*give one of the two files alone"):
        load_rulebook(files)
