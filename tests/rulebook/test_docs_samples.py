"""The samples of rule files and configurations in the documentation can be used as they are."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from gpu2npu.project.config import read_config
from gpu2npu.project.rule_examples import check_user_examples
from gpu2npu.rulebook import load_rulebook

ROOT = Path(__file__).parents[2]
PAGES = {page.name: page.read_text(encoding="utf-8") for page in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md")}


def samples(language: str) -> list:
    found = []
    for name, text in sorted(PAGES.items()):
        for index, body in enumerate(re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)):
            found.append(pytest.param(body, id=f"{name}-{index}"))
    return found


@pytest.mark.parametrize(
    "sample", [item for item in samples("json") if item.id not in ("writing-rules.md-0", "writing-rules.zh-CN.md-0")]
)
def test_rule_files(tmp_path: Path, sample: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(sample, encoding="utf-8")
    rulebook = load_rulebook([path])
    assert any(not rule.builtin for rule in rulebook.rules)
    check_user_examples(rulebook)


PACKS = [item for item in samples("toml") if "[build-system]" in item.values[0]]


@pytest.mark.parametrize("sample", [item for item in samples("toml") if item not in PACKS])
def test_configurations(tmp_path: Path, sample: str) -> None:
    (tmp_path / "gpu2npu.toml").write_text(sample, encoding="utf-8")
    config = read_config(tmp_path)
    assert config.version == "2.1.0" and config.rules


@pytest.mark.parametrize("sample", PACKS)
def test_projects_of_packs(sample: str) -> None:
    """The folder that is named as a pack is a package, and its rule files are packaged."""
    read = tomllib.loads(sample)
    (package,) = read["project"]["entry-points"]["gpu2npu.rules"].values()
    assert read["tool"]["setuptools"]["package-data"][package] == ["*.json"]
