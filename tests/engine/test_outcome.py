"""Insertions where the statement around them, or their line, is taken out."""

import textwrap

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.engine.outcome import lost_insertions
from gpu2npu.python.text.edits import Edited
from gpu2npu.records import Edit, FindingKind

_REMOVE = {"id": "gone", "match": {"code": "teamlib.ctx(...)"}, "then": {"remove": True}}


def _adding(place: str) -> dict[str, object]:
    add = {"statement": "teamlib.warm()", "place": place}
    return {"id": "add", "match": {"code": "teamlib.start()"}, "then": {"add": add}}


@pytest.mark.parametrize("place", ["before", "after", "around"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_is_added_in_a_block_moves_with_it(migrate_with, place: str, depth: int, newline: str) -> None:
    added = {
        "before": "x = 1\nteamlib.warm()\nteamlib.start()\n",
        "after": "x = 1\nteamlib.start()\nteamlib.warm()\n",
        "around": "x = 1\nwith teamlib.warm():\n    teamlib.start()\n",
    }[place]
    body = "x = 1\nteamlib.start()\n"
    for _ in range(depth):
        body = "with teamlib.ctx():\n" + textwrap.indent(body, "    ")
    whole = "import teamlib\n\n\ndef f():\n{}    return x\n"
    source = whole.format(textwrap.indent(body, "    ")).replace("\n", newline)
    result = migrate_with([_REMOVE, _adding(place)], source)
    assert result.content.decode() == whole.format(textwrap.indent(added, "    ")).replace("\n", newline)
    assert not result.findings


@pytest.mark.parametrize(
    "body",
    [
        "    with teamlib.ctx():\n        with teamlib.ctx():\n            teamlib.g()\n",
        "    with teamlib.ctx():\n        teamlib.g()\n",
        "    teamlib.ctx()\n    teamlib.g()\n",
    ],
)
def test_what_is_added_before_a_line_that_goes_stays(migrate_with, body: str) -> None:
    add = {"statement": "teamlib.warm()", "place": "function"}
    rule = {"id": "add", "match": {"code": "teamlib.g()"}, "then": {"add": add}}
    result = migrate_with([_REMOVE, rule], f"import teamlib\n\n\ndef f():\n{body}")
    assert result.content.decode() == "import teamlib\n\n\ndef f():\n    teamlib.warm()\n    teamlib.g()\n"
    assert not result.findings


def test_what_is_added_beside_a_block_stays_in_its_column(migrate_with) -> None:
    block = "if n:\n    {}teamlib.start()\n"
    source = f"import teamlib\n{block}with teamlib.ctx():\n    g()\n    h()\n{block}"
    result = migrate_with([_REMOVE, _adding("before")], source.replace("{}", ""))
    added = block.format("teamlib.warm()\n    ")
    assert result.content.decode() == f"import teamlib\n{added}g()\nh()\n{added}"


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_is_added_before_the_first_line_of_a_block_moves_with_it(migrate_with, depth: int) -> None:
    add = {"statement": "teamlib.warm()", "place": "before"}
    rule = {"id": "add", "match": {"code": "teamlib.mode"}, "then": {"add": add}}
    body = "teamlib.ctx(teamlib.mode)\nx = teamlib.g()\n"
    for _ in range(depth):
        body = "with teamlib.ctx():\n" + textwrap.indent(body, "    ")
    result = migrate_with([_REMOVE, rule], f"import teamlib\n\n\ndef f():\n{textwrap.indent(body, '    ')}")
    assert result.content.decode() == "import teamlib\n\n\ndef f():\n    teamlib.warm()\n    x = teamlib.g()\n"
    assert not result.findings


def test_a_with_for_a_statement_that_goes_is_reported(migrate_with) -> None:
    add = {"statement": "teamlib.warm()", "place": "around"}
    rule = {"id": "add", "match": {"code": "teamlib.mode"}, "then": {"add": add}}
    result = migrate_with(
        [_REMOVE, rule], "import teamlib\n\n\ndef f():\n    teamlib.ctx(teamlib.mode)\n    return 1\n"
    )
    assert result.content.decode() == "import teamlib\n\n\ndef f():\n    return 1\n"
    assert [(found.rule, found.api) for found in result.findings] == [("add", "with teamlib.warm():")]


def test_an_insertion_that_is_not_made_is_reported() -> None:
    insertion = Edit((3, 3), "warm()\n", "add", "It is cold.")
    pieces = Edit((2, 2), (" ", (0, 1), "go()"), "own", "")
    others = [Edit((1, 2), "y", "add", ""), Edit((4, 4), "\n", "add", ""), pieces]
    edits = [Edit((0, 5), "new", "other", ""), insertion, Edit((5, 5), "x", "add", ""), *others]
    lost, other = lost_insertions(edits, {edit for edit, _ in Edited("f(abc)", edits).made()})
    assert (lost.place, lost.rule, lost.api) == ((3, 3), "add", "warm()")
    assert "is not added" in lost.message
    assert (other.place, other.rule, other.api) == ((2, 2), "own", "go()")


def test_an_import_in_a_block_that_is_unwrapped(migrate_with) -> None:
    npu = {"id": "npu", "match": {"code": "torch.ones($N)"}, "then": {"replace": "torch.ones(torch_npu.count($N))"}}
    source = "import teamlib\n\nwith teamlib.ctx():\n    import torch\n    x = torch.ones(2)\n"
    text = migrate_with([_REMOVE, npu], source).content.decode()
    assert text.strip() == "import torch\nimport torch_npu\nx = torch.ones(torch_npu.count(2))"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "with teamlib.ctx():\n    with teamlib.ctx():\n        f()\n        # end\n    # outer\n# none\n",
            "f()\n# end\n# outer\n# none\n",
        ),
        ("with teamlib.ctx():\n    f()\n    # end\n", "f()\n# end\n"),
        ("def f():\n    with teamlib.ctx():\n        '''text'''\n", None),
        ("def f():\n    with teamlib.ctx():\n        with teamlib.ctx():\n            '''text'''\n", None),
        ("def f():\n    g()\n    with teamlib.ctx():\n        '''text'''\n", "def f():\n    g()\n    '''text'''\n"),
    ],
)
def test_comments_and_strings_of_a_block(migrate_with, before: str, after: str | None) -> None:
    result = migrate_with([_REMOVE], "import teamlib\nteamlib.a()\n" + before)
    if after is None:
        assert result.content is None or b"def f():\n    with teamlib.ctx():\n" in result.content
        assert FindingKind.REVIEW in {found.kind for found in result.findings}
    else:
        assert result.content.decode() == "import teamlib\nteamlib.a()\n" + after


def test_what_the_function_itself_imports_is_not_imported_again(migrate_with) -> None:
    cores = {"replace": "not teamlib.has_cores()", "imports": "teamlib"}
    rule = {"id": "cores", "match": {"code": "$C.count() < 8", "types": {"C": "unknown"}}, "then": cores}
    bound = "def f(card):\n    import teamlib\n\n    return card.count() < 8\n"
    assert migrate_with([rule], bound).content.decode().count("import teamlib") == 1
    other = "def g():\n    import teamlib\n\n\ndef f(card):\n    return card.count() < 8\n"
    assert migrate_with([rule], other).content.decode().count("import teamlib") == 2


def test_a_package_is_reported_where_only_some_of_its_names_go(rulebook) -> None:
    text = "from bitsandbytes.optim import Adam8bit, AdamW32bit\na = AdamW32bit(p), Adam8bit(p)\n"
    found = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert b"import Adam8bit\n" in (found.content or b"")
    assert [each.rule for each in found.findings] == ["package-bitsandbytes"]
    text = text.replace("Adam8bit, ", "").replace(", Adam8bit(p)", "")
    assert not migrate_source(text.encode(), "a.py", rulebook, ProjectContext()).findings
