"""Rules whose parts do not fit together: each is refused with its place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gpu2npu.builtin_rules import builtin_files
from gpu2npu.rulebook import RuleError
from gpu2npu.rulebook.check import check_document

KEEP = {"keep": "x = 1\n"}
RULE: dict[str, Any] = {
    "id": "mine",
    "why": "So.",
    "match": {"name": "lib.gpu"},
    "then": {"rename": "lib.npu"},
    "examples": [KEEP],
}
MATCHES: dict[str, dict[str, Any]] = {
    "name": {"name": "lib.gpu"},
    "method": {"method": "cuda"},
    "attribute": {"attribute": "is_cuda"},
    "string": {"string": "cuda", "role": "device"},
    "pattern": {"pattern": "cu(\\d+)"},
    "call": {"call": "lib.load"},
    "argument": {"argument": "device", "of": "lib.load", "value": "cuda"},
    "import": {"import": "lib"},
    "environment": {"environment": "LIB_*"},
    "command": {"command": "nvidia-smi"},
    "code": {"code": "lib.load($X, ...)"},
    "class": {"class": "lib.Model"},
    "decorator": {"decorator": "lib.graph"},
    "member": {"member": "lib.Trainer.to_gpu"},
    "setting": {"setting": "a.*.b", "values": ["gpu"]},
}
FITTING = {
    "rename": {
        "name",
        "method",
        "attribute",
        "string",
        "pattern",
        "call",
        "argument",
        "environment",
        "command",
        "setting",
        "member",
    },
    "replace": {"call", "argument", "code"},
    "remove": {"import", "argument", "code", "class", "decorator"},
    "report": set(MATCHES),
    "trait": set(MATCHES),
    "keep": set(MATCHES),
}
ACTIONS: dict[str, Any] = {
    "rename": "new",
    "replace": "[1]",
    "remove": True,
    "report": {"kind": "review", "message": "Look."},
    "trait": "multi-card",
    "keep": True,
}


def refusal(**change: Any) -> str:
    with pytest.raises(RuleError) as caught:
        check_document({"rules": [{**RULE, **change}]}, Path("mine.json"))
    message = str(caught.value)
    assert message.startswith("mine.json: $.rules[0]") and message.endswith(".") and "\n" not in message
    return message


@pytest.mark.parametrize("kind", MATCHES)
@pytest.mark.parametrize("action", ACTIONS)
def test_what_can_be_done_with_each_match(kind: str, action: str) -> None:
    document = {"rules": [{**RULE, "match": MATCHES[kind], "then": {action: ACTIONS[action]}}]}
    if kind in FITTING[action]:
        check_document(document, Path("mine.json"))
        return
    with pytest.raises(RuleError) as caught:
        check_document(document, Path("mine.json"))
    assert f"$.rules[0].then.{action} (rule 'mine'): '{action}' cannot be done with a match of '{kind}'" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"then": {"rename": "a b"}}, "then.rename (rule 'mine'): 'a b' is not a qualified name"),
        ({"match": MATCHES["method"], "then": {"rename": "a.b"}}, "'a.b' is not an identifier"),
        ({"match": MATCHES["environment"], "then": {"rename": "A-B"}}, "the name of an environment variable"),
        ({"match": {"argument": 0, "of": "f"}, "then": {"rename": "npu"}}, "the match must say which: give 'value'"),
        ({"match": MATCHES["call"], "then": {"replace": "f({0}"}}, "then.replace (rule 'mine'): 'f({0}' is not Python"),
        ({"match": MATCHES["argument"], "then": {"replace": "f({0})"}}, "the field {0} does not exist for an argument"),
        ({"match": MATCHES["argument"], "then": {"replace": "1, 2"}}, "is not one argument"),
        ({"match": MATCHES["argument"], "then": {"replace": "1", "remove": True}}, "are two edits of one place"),
        ({"then": {"keep": True, "rename": "x"}}, "then.keep (rule 'mine'): a place that is kept"),
        ({"then": {"needs_target": True, "trait": "multi-card"}}, "only beside 'rename'"),
        (
            {"then": {"trait": "multi card"}},
            "then.trait (rule 'mine'): 'multi card' is not a value of this key, did you mean 'multi-card'.",
        ),
        ({"then": {"imports": "x", "trait": "multi-card"}}, "only beside 'rename', 'replace', 'codemod' or 'remove'"),
        ({"match": {"pattern": "(a"}}, "match.pattern (rule 'mine'): '(a' is not a regular expression"),
        ({"match": {"pattern": "cu(\\d+)"}, "then": {"rename": "\\2"}}, "cannot stand for what the pattern finds"),
        (
            {"match": MATCHES["import"], "then": {"add": {"statement": "lib.f()", "place": "around"}}},
            "then.add.place (rule 'mine'): 'around' is not a place beside an import",
        ),
        (
            {"match": {"import": "*_cuda"}, "then": {"add": {"statement": "lib.f()"}}},
            "then.add (rule 'mine'): is for one package",
        ),
        ({"since": "2.3.0", "until": "2.2.0"}, "until (rule 'mine'): PyTorch 2.2.0 comes before 2.3.0"),
        ({"since": "2.99.0"}, "since (rule 'mine'): PyTorch 2.99.0 leaves no version for the rule; 1.11.0 to"),
        ({"until": "1.9.0"}, "until (rule 'mine'): PyTorch 1.9.0 leaves no version for the rule"),
        (
            {"match": {"code": "lib.f($X)", "types": {"X": "Tensor"}}, "then": {"keep": True}},
            "match.types.X (rule 'mine'): 'Tensor' is neither a type nor the qualified name of a class; "
            "did you mean 'tensor'.",
        ),
        (
            {"match": {"code": "lib.f($X)", "types": {"X": "torch.nn.Module"}}, "then": {"keep": True}},
            "match.types.X (rule 'mine'): write 'module' for torch.nn.Module",
        ),
        ({"then": {"renmae": "x"}}, "then (rule 'mine'): 'renmae' is not a key here, did you mean 'rename'."),
        ({"then": {"renmae": "x"}}, "did you mean 'rename'."),
        (
            {"match": {"nmae": "lib"}},
            "match (rule 'mine'): {'nmae': 'lib'} has none of the keys that say what it is, did you mean 'name'.",
        ),
        ({"examples": [{"befor": "x"}]}, "examples[0] (rule 'mine'): {'befor': 'x'} has none of the keys"),
        ({"then": {"rename": "lib.class"}}, "'lib.class' is not a name in Python, where 'class' is a keyword"),
        ({"match": {"name": "a", "method": "b"}}, "$.rules[0].match"),
        ({"examples": [{"before": "x"}]}, "examples[0] (rule 'mine'): these keys are missing: 'after'."),
        ({"where": {}}, "$.rules[0].where"),
        ({"why": 3}, "why (rule 'mine'): must be a text or an object, not an integer."),
    ],
)
def test_refusals(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal(**change)


def test_all_that_is_wrong_is_reported_at_once() -> None:
    rules = [
        {**RULE, "id": "one", "why": 3, "then": {"renmae": "x"}},
        {**RULE, "id": "two", "then": {"rename": "a b"}, "since": "2.3.0", "until": "2.2.0"},
        {**RULE, "id": "three"},
    ]
    with pytest.raises(RuleError) as caught:
        check_document({"rules": rules, "roles": {"of": {"prefix": "("}}}, Path("mine.json"))
    places = [line.removeprefix("mine.json: $.").partition(":")[0] for line in str(caught.value).splitlines()]
    assert places == [
        "rules[0].then (rule 'one')",
        "rules[0].why (rule 'one')",
        "rules[1].then.rename (rule 'two')",
        "rules[1].until (rule 'two')",
        "roles.of.prefix",
    ]


@pytest.mark.parametrize("pattern", [r"\s*\w+\s*=\s*cuda", r"[\w.]+/cuda[\w.]*", r"(.*)/train:cu(\d+)"])
def test_a_pattern_that_is_only_slow_on_long_words_is_taken(pattern: str) -> None:
    check_document({"rules": [{**RULE, "match": {"pattern": pattern}}]}, Path("mine.json"))


@pytest.mark.parametrize("document", [None, [], 3, "rules", {"rule": []}, {"rules": 3}, {"rules": [3]}])
def test_what_is_no_rule_file(document: object) -> None:
    with pytest.raises(RuleError, match=r"^mine\.json: \$"):
        check_document(document, Path("mine.json"))


def test_long_values_are_not_repeated_in_full() -> None:
    assert len(refusal(why=["x" * 100_000])) < 400


def test_a_role_with_a_pattern_that_does_not_compile() -> None:
    with pytest.raises(RuleError, match=r"\$\.roles\.device\.suffix: is not a regular expression"):
        check_document({"roles": {"device": {"suffix": "("}}}, Path("mine.json"))


@pytest.mark.parametrize("path", builtin_files(), ids=lambda path: path.name)
def test_the_built_in_files_pass(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    before = copy.deepcopy(document)
    check_document(document, path)
    assert document == before


@pytest.mark.parametrize(
    ("code", "new", "message"),
    [
        ("lib.f($X", "1", "is not one expression of Python"),
        ("lib.f($x)", "1", "a dollar without a name at character 7; write $X, in capital letters"),
        ("$X + $Y", "1", "has no name that code would have to contain"),
        ("f($X)", "1", "'f' in 'f($X)' is not a builtin; write a qualified name (lib.f), or $F for any expression"),
        ("lib.f(lambda: $X)", "1", "has what a pattern cannot have: Lambda"),
        ("lib.f(..., $X)", "1", "arguments by position are behind `...`"),
        ("lib.f($X)", "lib.g($X, $X)", "$X stands 2 times in it, so that its code would run 2 times"),
        ("lib.f($X)", "lib.g($Y)", "the metavariable $Y is not in the pattern"),
        ("lib.f($X)", "lib.g(...)", "`...` stands for the arguments that `...` of the pattern matches"),
        ("lib.f($X)", "lib.g($X", "then.replace (rule 'mine'): 'lib.g($X' is not one expression"),
    ],
)
def test_what_a_pattern_of_code_cannot_be(code: str, new: str, message: str) -> None:
    assert message in refusal(match={"code": code}, then={"replace": new})


def test_the_types_of_metavariables_are_those_of_the_pattern() -> None:
    match = {"code": "lib.f($X)", "types": {"Y": "tensor"}}
    assert "match.types.Y" in refusal(match=match, then={"remove": True})


def test_what_is_a_name_or_a_literal_may_stand_twice() -> None:
    match = {"code": "lib.f($X)", "types": {"X": "literal"}}
    check_document({"rules": [{**RULE, "match": match, "then": {"replace": "lib.g($X, $X)"}}]}, Path("mine.json"))


@pytest.mark.parametrize(
    ("kind", "add", "message"),
    [
        ("code", {"base": "lib.A"}, "then.add.base (rule 'mine'): cannot be added at a match of 'code'"),
        ("decorator", {"base": "lib.A"}, "possible: decorator"),
        ("class", {"base": "lib.A", "place": "after"}, "then.add.place (rule 'mine'): is for a statement"),
        ("code", {"statement": "x = 1"}, "'x = 1' is not one expression of Python"),
    ],
)
def test_what_can_be_added(kind: str, add: dict[str, str], message: str) -> None:
    assert message in refusal(match=MATCHES[kind], then={"add": add})
