"""The tutorial is executed: its files are written and its commands run, in order, and print what it shows."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu2npu import migrate_project
from gpu2npu.cli.main import main
from gpu2npu.rulebook.document import schema

DOCS = Path(__file__).parents[2] / "docs"
# The pages, with the numbers of commands and files that they have.
PAGES = {"writing-rules.md": (11, 5), "learning-rules.md": (2, 4)}
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


def commands(body: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], str]]:
    """Runs a command in the current folder, gpu2npu itself in this process, and gives back all that it prints."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run_command(command: str) -> str:
        if command.startswith("gpu2npu "):
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            with contextlib.suppress(SystemExit):
                main()
            sys.stdout.flush()
            sys.stderr.flush()
        else:
            subprocess.run(command, shell=True, check=True)
        return "".join(capfd.readouterr())

    yield run_command
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("page", PAGES)
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], str], page: str) -> None:
    monkeypatch.chdir(tmp_path)
    ran, written = 0, 0
    for block in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        if block["file"]:
            path = tmp_path / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], encoding="utf-8")
            written += 1
        elif block["language"] == "console":
            for command, output in commands(block["body"]):
                assert (command, run(command)) == (command, output)
                ran += 1
    assert (ran, written) == PAGES[page]


@pytest.mark.parametrize(("page", "blocks"), [("learning-rules", 6), ("writing-rules", 17)])
def test_the_chinese_page_shows_the_same(page: str, blocks: int) -> None:
    shown = [BLOCK.findall((DOCS / f"{page}{language}.md").read_text("utf-8")) for language in ("", ".zh-CN")]
    assert shown[0] == shown[1]
    assert len(shown[0]) == blocks


def test_the_table_of_matches_and_changes_leads_to_every_rule() -> None:
    text = (DOCS / "writing-rules.md").read_text(encoding="utf-8")
    rules = next(block["body"] for block in BLOCK.finditer(text) if block["file"] == "more_rules.json")
    table = text.partition("| to match or change | look at |")[2].partition("\n\n")[0].splitlines()[2:]
    named = [set(re.findall(r"`([\w-]+)`", row.rpartition(" | ")[2])) for row in table]
    assert (len(named), set.union(*named)) == (19, {rule["id"] for rule in json.loads(rules)["rules"]})
    assert all(named)


def test_it_names_every_kind_of_match_and_every_action() -> None:
    text = (DOCS / "writing-rules.md").read_text(encoding="utf-8")
    definitions = schema()["$defs"]
    kinds = {key for choice in definitions["match"]["oneOf"] for key in choice["properties"]}
    assert [
        word
        for word in (*kinds, *definitions["then"]["properties"])
        if f'"{word}":' not in text and f"`{word}`" not in text
    ] == []


def test_the_rule_that_the_page_compares_with_other_tools(tmp_path: Path) -> None:
    page = (DOCS / "writing-rules.md").read_text(encoding="utf-8")
    rules = next(block["body"] for block in BLOCK.finditer(page) if block["file"] == "more_rules.json")
    norm = [rule for rule in json.loads(rules)["rules"] if rule["id"] == "team-norm"]
    assert f'"code": "{norm[0]["match"]["code"]}"' in page.partition("### Beside other tools")[2]
    (tmp_path / "norm.json").write_text(json.dumps({"rules": norm}), encoding="utf-8")
    files = {
        "spellings.py": "from teamlib.gpu import norm\nfrom teamlib.gpu import norm as fast_norm\n"
        "import teamlib.gpu as tg\na = norm(x, 1e-5, out=z)\n"
        "b = fast_norm(\n    x,  # rows\n    eps=1e-5,\n)\nc = tg.norm(x, eps=1e-5)\n",
        "own.py": "def norm(x, eps): ...\ny = norm(x, eps=1e-5)\n",
        "offer.py": "from teamlib.gpu import norm as our_norm\n",
        "user.py": "from offer import our_norm\ny = our_norm(x, eps=1e-5)\n",
    }
    for name, text in files.items():
        (tmp_path / "src" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "src" / name).write_text(text, encoding="utf-8")
    migrated = migrate_project(tmp_path / "src", tmp_path / "out", version="2.1.0", rules=tmp_path / "norm.json")
    assert migrated.destination is not None
    new = {name: (migrated.destination / name).read_text(encoding="utf-8") for name in files}
    assert new["own.py"] == files["own.py"]
    assert "a = norm(x, epsilon=1e-5, out=z)" in new["spellings.py"]
    assert "x,  # rows\n    epsilon=1e-5," in new["spellings.py"]
    assert "eps=1e-5" not in new["spellings.py"].replace("epsilon=", "")
    assert "gpu" not in new["spellings.py"] + new["user.py"]
    assert "epsilon=1e-5" in new["user.py"]
    assert "from teamlib.npu import norm" in new["user.py"]
