"""Rules' regular expressions: they mean what `re` says, and a search that takes too long ends with the rule's name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.cli.main import cli
from gpu2npu.engine.knowledge import knowledge_for
from gpu2npu.engine.table import rule_table
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.settings import RuleChoice
from gpu2npu.rulebook import expression, load_rulebook
from gpu2npu.rulebook.expression import Expression, ExpressionTimeError, compile_problem, template_problem
from gpu2npu.support.releases import VERSIONS

RULEBOOK = load_rulebook()
TABLE = rule_table(RULEBOOK, VERSIONS[0])
FIXTURES = Path(__file__).parents[2] / "fixtures"
# Every text that a rule was written for, and code as users have it.
CORPUS = [
    *(text for rule in RULEBOOK.rules for example in rule.examples for text in (example.before, example.after)),
    *(path.read_text(encoding="latin-1") for path in sorted(FIXTURES.rglob("*.py"))),
]
STRING = re.compile(r"[\"']([^\"'\n]*)[\"']")
LINES = {line for text in CORPUS for line in (*text.splitlines(), *STRING.findall(text))}
EVIL = "zq(?:x|xx)+%"
SLOW = "zq" + "x" * 200 + "!%"


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A limit that only a search without an end reaches: the others take thousandths of it."""
    monkeypatch.setattr(expression, "SECONDS", 0.2)
    expression._ran_out.clear()
    yield
    expression._ran_out.clear()


def found(pattern: str, text: str) -> list[tuple[tuple[int, int], tuple[str | None, ...]]]:
    return [(match.span(), match.groups()) for match in re.finditer(pattern, text)]


@pytest.mark.parametrize("rule", [rule for _, rule in TABLE.patterns], ids=lambda rule: rule.id)
def test_built_in_patterns_find_what_re_finds(rule) -> None:
    pattern = next(pattern for pattern, owner in TABLE.patterns if owner is rule)
    matches = [[(match.span(), match.groups()) for match in pattern.all_in(line)] for line in LINES]
    assert matches == [found(pattern.text, line) for line in LINES]
    assert any(matches)


def test_built_in_patterns_find_in_files_what_re_finds() -> None:
    patterns = [*TABLE.trigger.patterns, *knowledge_for(RULEBOOK, VERSIONS[0]).trigger.patterns]
    assert len(patterns) > 20
    for pattern in (each.pattern for each in patterns):
        for text in CORPUS:
            assert [match.span() for match in pattern.all_in(text)] == [span for span, _ in found(pattern.text, text)]


def test_strings_with_a_role_are_those_of_re() -> None:
    texts = {string for text in CORPUS for string in STRING.findall(text)}
    for rule in TABLE.strings:
        matches = [rule.literal.fullmatch(text) is not None for text in texts]
        assert matches == [re.fullmatch(rule.literal.text, text) is not None for text in texts]


PIECES = (
    "cuda", "{i}", "{", "}", "{e<=1}", "{,}", "{}", "[{:]", "[[:a]", "[]:]", "[^:]", r"\{", "(?:a|b)", "(c)?", "x*",
    ".", "a{2}", "b{1,}", "c{,2}", r"\d+", r"\w", "$", "^", r"\b", "(?i:CU)", "(?<!d)", "(?=a)", r"\N{SPACE}",
    "[a-c]+?",
)  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join), st.text("acdubx{}:[]ei1 \n", max_size=14)
)
@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_a_pattern_means_what_re_says(pattern: str, text: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        return
    assert [(match.span(), match.groups()) for match in Expression(pattern, "").all_in(text)] == found(pattern, text)


def test_flags_and_templates() -> None:
    assert Expression("cpu", "", ignores_case=True).search("on the CPU")
    assert Expression(r"(\w+)=cuda", "").replaced(r"\1=npu", "a=cuda b=cuda") == "a=npu b=npu"
    assert template_problem(r"(?P<n>a)|(b)", r"\g<n>\2") is None
    assert "invalid group reference 2" in str(template_problem("(a)", r"\2"))
    assert "is not a regular expression" in str(compile_problem("(a"))
    assert "is not a regular expression" in str(compile_problem(f"a{{{'9' * 5000}}}"))


@pytest.mark.parametrize(
    "pattern",
    [r"(?:a{1000}){1000}", r"(?:(?:[)\]]b{300}){300}){300}", "((?:x{1,9999}){,9999}z|y)", "(?:(?:a|b){600}c){600,}"],
)
def test_counts_within_counts_are_refused_before_they_take_memory(pattern: str) -> None:
    assert re.compile(pattern)
    assert re.search(r"^repeats [\d,]+ parts, counts within counts", str(compile_problem(pattern)))


@pytest.mark.parametrize(
    "pattern", ["a{1000}b{1000}", "(?:a{100}){100}", r"\({9999}", "[(]{9999}(?:x{9}y{9}){99}", "a{,}", "(?x)a # )\nb"]
)
def test_counts_of_an_ordinary_size_are_taken(pattern: str) -> None:
    assert compile_problem(pattern) is None


def test_a_search_that_does_not_end(short_limit: None) -> None:
    evil = Expression(EVIL, "rule 'evil' in own.json")
    with pytest.raises(ExpressionTimeError, match=r"of rule 'evil' in own\.json takes longer than 0\.2 seconds"):
        evil.search(SLOW)
    assert evil.search("zqxxx%") is not None


def test_after_some_searches_without_an_end_no_more_are_begun(short_limit: None) -> None:
    evil = Expression(EVIL, "rule 'evil' in own.json")
    for search in (evil.search, evil.fullmatch, evil.all_in, lambda text: evil.replaced("", text), evil.search):
        with pytest.raises(ExpressionTimeError):
            search(SLOW)
    with pytest.raises(ExpressionTimeError):
        evil.search("zqxxx%")
    assert Expression(EVIL, "rule 'other'").search("zqxxx%") is not None


def write_project(folder: Path, match: dict[str, object], example: str) -> None:
    rule = {"id": "evil", "why": "So.", "match": match, "then": {"report": {"kind": "review", "message": "Look."}}}
    rule["examples"] = [{"keep": example, "reports": "review"}]
    (folder / "rules.json").write_text(json.dumps({"rules": [rule]}))
    (folder / "bad.py").write_text(f'x = "{SLOW}"\ny = "zqxx%"\n')
    (folder / "bad.yaml").write_text(f"x: {SLOW}\ny: zqxx%\n")
    (folder / "good.py").write_text("import torch\nx = torch.ones(1).cuda()\n")


def test_only_the_files_in_which_a_rule_does_not_end_fail(tmp_path: Path, short_limit: None) -> None:
    write_project(tmp_path, {"pattern": EVIL}, 'x = "zqxxx%"\n')
    sources = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    migrator = Migrator.load(RuleChoice((tmp_path / "rules.json",)), VERSIONS[0], tmp_path, sources)
    migrated = {name: migrator(sources[name], name) for name in ("good.py", "bad.py", "bad.yaml")}
    assert b".npu()" in (migrated["good.py"].content or b"")
    for name in ("bad.py", "bad.yaml"):
        failure = migrated[name].failure or ""
        assert f"rule 'evil' in {tmp_path}/rules.json takes longer than 0.2 seconds" in failure


def test_no_rule_is_executed_to_choose_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a worker's own time is limited."""
    from gpu2npu.engine import ProjectContext, has_trigger, may_have_trigger
    from gpu2npu.formats.dispatch import may_concern

    def fail(*_: object) -> None:
        raise AssertionError

    context = ProjectContext(version=VERSIONS[0])
    source = b"x = '1.0+cu118'"  # only a pattern finds it
    assert has_trigger(source, RULEBOOK, context)
    monkeypatch.setattr(Expression, "_limited", fail)
    assert may_have_trigger(source, RULEBOOK, context)
    assert may_concern(b"image: pytorch/pytorch:2.1-cuda\n", "a.yaml", RULEBOOK, context)


def test_an_example_with_which_a_rule_does_not_end(tmp_path: Path, short_limit: None) -> None:
    write_project(tmp_path, {"pattern": EVIL}, f'x = "{SLOW}"\n')
    done = CliRunner().invoke(cli, ["rules", "validate", str(tmp_path / "rules.json")])
    assert "takes longer than 0.2 seconds" in str(done.exception)


def test_a_rule_that_finds_the_empty_text(tmp_path: Path) -> None:
    write_project(tmp_path, {"pattern": "a*"}, "x = 1\n")
    done = CliRunner().invoke(cli, ["rules", "validate", str(tmp_path / "rules.json")])
    assert "'a*' also finds nothing at all, the empty text, and so would match every string" in str(done.exception)
