"""The settings of a project: where they are read, what wins, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu2npu.language import language
from gpu2npu.project.config import read_config
from gpu2npu.project.errors import UsageError
from gpu2npu.project.settings import Settings

ALL = """
version = "2.3.0"
rules = ["ours/rules.json"]
skip-rules = ["data-parallel"]
exclude = ["third_party"]
skip-kinds = ["shell"]
soc = ["Ascend910B2", "910b", "A3"]
lang = "zh"
"""


def test_nothing(tmp_path: Path) -> None:
    assert read_config(tmp_path) == Settings()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read_config(tmp_path) == Settings()


@pytest.mark.parametrize(("name", "head"), [("gpu2npu.toml", ""), ("pyproject.toml", "[tool.gpu2npu]\n")])
def test_every_key(tmp_path: Path, name: str, head: str) -> None:
    (tmp_path / name).write_text(head + ALL)
    expected = Settings(
        file=tmp_path / name,
        version="2.3.0",
        rules=(tmp_path / "ours" / "rules.json",),
        skip_rules=("data-parallel",),
        exclude=("third_party",),
        skip_kinds=("shell",),
        chips=("910B", "910_93"),
        lang="zh",
    )
    assert read_config(tmp_path) == expected
    assert read_config(tmp_path / "train.py") == expected
    assert language() == "en"


def test_a_file_that_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "gpu2npu.toml").write_text("version = '2.2.0'\n", encoding="utf-8-sig")
    assert read_config(tmp_path).version == "2.2.0"


def test_the_own_file_wins_over_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gpu2npu]\nversion = '2.1.0'\nexclude = ['a']\n")
    (tmp_path / "gpu2npu.toml").write_text("version = '2.2.0'\n")
    assert read_config(tmp_path) == Settings("2.2.0", file=tmp_path / "gpu2npu.toml")


def test_the_command_line_wins(tmp_path: Path) -> None:
    config = Settings("2.3.0", rules=(Path("theirs.json"),), skip_rules=("a",), exclude=("b",), skip_kinds=("shell",))
    command_line = Settings("2.1.0", rules=(Path("mine.json"),), skip_rules=("x",), exclude=("y",))
    filled = command_line.or_else(config)
    assert (filled.version, filled.rules, filled.skip_rules) == ("2.1.0", (Path("mine.json"),), ("x",))
    assert (filled.exclude, filled.skip_kinds) == (("y",), ("shell",))
    assert Settings().or_else(config).rules == (Path("theirs.json"),)


def test_a_broken_pyproject_that_does_not_mention_the_tool_is_none_of_its_business(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    assert read_config(tmp_path) == Settings()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version = 2", "version: must be a text."),
        (
            b"verson = '2.1.0'",
            "verson: is an unknown key; known: version, torch-npu, rules, skip-rules, exclude, skip-kinds, soc, lang.",
        ),
        (b"version = '2.0'", "version: PyTorch version '2.0' is not known; use one of 1.11.0, 2.1.0"),
        (b"rules = 'one.json'", "rules: must be a list of texts."),
        (b"exclude = ['a', 1]", "exclude: must be a list of texts."),
        (b"skip-kinds = ['shel']", "skip-kinds: 'shel' is not a kind of files; known: shell, "),
        (b"soc = ['H100']", "soc: no chip is called 'H100'; there are 910A"),
        (b"version = ", "is not TOML: "),
        (b"\xff", "is not UTF-8 (byte 0)."),
        (b"a = " + b"[" * 50_000, "is "),
        (b"#" * (1024 * 1024 + 1), "is too large"),
    ],
)
def test_refusals(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "gpu2npu.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_config(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {reason}") and "\n" not in message and message.endswith(".")


def test_the_table_is_named_in_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gpu2npu]\nskip_rules = []\n")
    with pytest.raises(UsageError, match=r"pyproject\.toml: tool\.gpu2npu\.skip_rules: is an unknown key"):
        read_config(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool]\ngpu2npu = 3\n")
    with pytest.raises(UsageError, match=r"tool\.gpu2npu: must be a table"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "path", "excluded"),
    [
        ("third_party", "third_party/a/b.py", True),
        ("third_party/", "third_party/b.py", True),
        ("third_party", "third_party_too/b.py", False),
        ("tests/*.py", "tests/deep/b.py", True),
        ("*/vendored", "src/vendored/b.py", True),
        ("setup.py", "setup.py", True),
        ("setup.py", "a/setup.py", False),
    ],
)
def test_excluded_paths(pattern: str, path: str, excluded: bool) -> None:
    assert Settings(exclude=(pattern,)).excludes(path) is excluded
