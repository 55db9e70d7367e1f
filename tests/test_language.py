"""Every message has a translation with the same values, and a text is translated where it is shown."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu2npu import language
from gpu2npu.analysis.torch_apis.calls import message as finding_message
from gpu2npu.cli.language import cells, wrapped
from gpu2npu.cli.main import cli
from gpu2npu.editor.session import hover_text
from gpu2npu.language import PLACEHOLDER, add_translation, of_locale, shown, translations
from gpu2npu.records import Change, MigratedFile, Operation, Span
from gpu2npu.report.check.statistics import RuleStatistics, statistics_text
from gpu2npu.support.behaviour import rows
from gpu2npu.support.spellings import api_variants
from gpu2npu.support.verdicts import ApiVerdict, VerdictKind, verdict
from tools import cli_pages, doc_tables
from tools.messages import all_messages, is_prose, messages_of_python

ROOT = Path(__file__).parents[1]


@pytest.fixture
def chinese() -> Iterator[None]:
    with language.restored():
        language.use("zh")
        yield


def test_every_message_has_a_translation() -> None:
    """Mended by `make translations`, which names those without one, and a line in gpu2npu/locale for each."""
    have = translations("zh")
    missing = {text: places[0] for text, places in all_messages().items() if not have.get(text)}
    assert len(missing) <= 0, missing  # the last ones added; the number may only fall


def test_a_translation_has_the_values_of_its_message() -> None:
    for text, translation in translations("zh").items():
        assert set(PLACEHOLDER.findall(translation)) == set(PLACEHOLDER.findall(text)), text


def test_what_is_collected() -> None:
    source = '''
def f(name, place):
    """A docstring is no message."""
    pattern = re.compile("the end of it")
    raise ValueError(f"The file '{name}' is not in {place}.")
x = shown("ready"), counted(3, "file"), "from torch import nn", "x is not None"
'''
    found = [text for _, text in messages_of_python(source)]
    assert found == ["ready", "{0} file", "{0} files", "The file '{0}' is not in {1}."]
    assert not is_prose("train.py")


@pytest.mark.usefixtures("chinese")
def test_values_are_found_in_a_text_and_put_into_its_translation() -> None:
    assert shown("The input 'src dir' does not exist or is neither a folder nor a file.") == (
        "输入 'src dir' 不存在，或既不是文件夹也不是文件。"
    )


@pytest.mark.usefixtures("chinese")
def test_a_message_in_a_message_and_one_after_another_are_translated_too() -> None:
    inner = "Error: gpu2npu itself failed (KeyError: 'x'); the traceback is in '/tmp/a.log', and please report this."
    assert shown(inner) == "错误：gpu2npu 自身出错（KeyError: 'x'）；调用栈在 '/tmp/a.log' 中，并请报告此问题。"
    assert shown("There is no NPU version. Leave this part on the CPU.") == "没有 NPU 版本。请把这部分留在 CPU 上。"
    assert shown("aten::lgamma is not registered for the NPU (a).") == "aten::lgamma 没有为 NPU 注册（a）。"
    assert (
        shown("aten::logit registered for the NPU (a); it is nested too deeply.")
        == "aten::logit 已为 NPU 注册（a）；它的嵌套过深。"
    )


@pytest.mark.usefixtures("chinese")
def test_a_finding_of_the_table_of_behaviour_is_translated_but_for_its_source() -> None:
    """Shapes of sentences are in the catalogue, not the sentence of each of hundreds of rows."""
    judged = ApiVerdict("x", VerdictKind.UNSUPPORTED, "key of npu_swiglu is int8 or int32 (a.md (b))", "reshape key")
    assert shown(finding_message(judged)) == "npu_swiglu 的 key 须为 int8 或 int32（a.md (b)）。请改变 key 的形状。"
    assert shown("npu_gelu: both tensors have one shape.") == "npu_gelu：两个张量的形状须相同。"
    texts = [text for row in rows()[::7] for text in (row.evidence, row.advice) if text]
    assert [text for text in texts if shown(text) == text] == []


_ENGLISH = re.compile(r"(?<![\w.:])[a-z]+ (?:\d+ )?[a-z]+\b")  # outside of code and of the sources in brackets


@pytest.mark.usefixtures("chinese")
def test_no_english_is_left_in_verdicts_lists_and_tables() -> None:
    apis = sorted(api_variants())[::20]
    judged = [verdict(api, version) for api in (*apis, "torch.optim.Adam") for version in ("2.1.0", "2.7.1")]
    texts = [shown(text) for each in judged for text in (each.evidence, each.advice)]
    names = "lib.first, lib.second, lib.third, lib.fourth, lib.fifth"
    texts.append(shown(f"lib.f reaches {names} and 3 more, which a migration rewrites: migrate the library, too."))
    pattern = '`$P.add_argument("--local_rank", "--local-rank", ...)`'
    texts.append(shown(f"the code here is other than the rule's: it matches the code {pattern}"))
    texts += statistics_text([RuleStatistics("rule", "change", 1, 1, 1, 1)]).split()[:6]
    assert not [
        text for text in texts if _ENGLISH.search(re.sub(r"（[^）]*）|`[^`]*`", "", text)) or (text.isascii() and text)
    ]


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "tests",
        "src/docs of mine/ready",
        "print('a file of the user')",
        "not a message",
        "train.py --format lines",
        "a.b: c",
    ],
)
def test_what_is_no_message_stays(text: str) -> None:
    assert shown(text) == text


@pytest.mark.usefixtures("chinese")
def test_a_rule_of_the_user_s_own_brings_its_translation() -> None:
    add_translation("Our cards are called otherwise.", {"zh": "我们的卡名字不同。"})
    assert shown("Our cards are called otherwise.") == "我们的卡名字不同。"


def test_english_is_left_alone() -> None:
    assert shown("There is no NPU version.") == "There is no NPU version."
    with language.restored():
        language.use("zh")
        assert shown("There is no NPU version.") == "没有 NPU 版本。"
    assert language.language() == "en"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh_CN", "LANG": "de_DE"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh"}, "zh"),
        ({}, "en"),
    ],
)
def test_the_locale_decides(variables: dict[str, str], expected: str) -> None:
    assert of_locale(variables) == expected


@pytest.mark.parametrize(
    ("words", "expected"), [((), "其中没有面向 CUDA 的内容"), (("--lang", "en"), "nothing in it is for CUDA")]
)
def test_a_project_s_own_language_ends_with_the_command(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    (tmp_path / "gpu2npu.toml").write_text("lang = 'zh'\n")
    (tmp_path / "a.py").write_text("x = 1\n")
    done = CliRunner().invoke(cli, ["check", *words, str(tmp_path)])
    assert expected in done.stdout
    assert language.language() == "en"


def test_the_many_names_of_a_cause_are_listed_in_chinese(tmp_path: Path) -> None:
    names = ("MaxPool1d", "MaxPool3d", "AvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "RNN", "RNNCell")
    (tmp_path / "a.py").write_text(f"from torch import nn\nlayers = [{', '.join(f'nn.{name}' for name in names)}]\n")
    for form in ("text", "html"):
        written = (
            CliRunner().invoke(cli, ["check", str(tmp_path), "-v", "2.7.1", "--lang", "zh", "--format", form]).stdout
        )
        assert "另有 2 个" in written and "and 2 more" not in written


def test_wide_characters_take_two_columns() -> None:
    assert cells("ab核") == 4
    assert wrapped("把项目迁移到 NPU 上，然后运行", 10) == ["把项目迁移", "到 NPU", "上，然后运", "行"]


@pytest.mark.parametrize("command", [[], ["check"], ["verify"], ["run"], ["rules"], ["analyse"], ["distributed"]])
def test_a_page_of_help_fits_into_80_columns_in_chinese(command: list[str]) -> None:
    """But for what has no place to be cut: a name, and the lines of examples."""
    page = subprocess.run(
        [sys.executable, "-m", "gpu2npu", *command, "--help"],
        env={**os.environ, "LC_ALL": "zh_CN.UTF-8", "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert "用法" in page and "选项" in page
    before_examples = page.partition("示例")[0]
    wide = [line for line in before_examples.splitlines() if cells(line) > 80]
    assert [line for line in wide if not re.fullmatch(r"\s*(?:--\S+ )?\S+", line)] == []


@pytest.mark.parametrize("name", ["en", "zh"])
def test_the_page_of_the_command_line_is_that_of_the_commands(name: str) -> None:
    """Renewed by `make docs`. In a process of its own: click remembers the options for help of commands that ran."""
    code = f"from tools import cli_pages; print(cli_pages.page({name!r}), end='')"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert (ROOT / "docs" / cli_pages.NAMES[name]).read_text(encoding="utf-8") == done.stdout.decode()


@pytest.mark.parametrize("page", list(doc_tables.TABLES))
@pytest.mark.parametrize("name", ["en", "zh"])
def test_a_table_of_the_docs_is_that_of_its_rows(page: str, name: str) -> None:
    text = (ROOT / "docs" / doc_tables.file_of(page, name)).read_text(encoding="utf-8")
    assert text.count("<!-- make docs -->") == text.count("<!-- end -->") == 1
    assert text == doc_tables.renewed(text, page, name)


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_front_page_can_be_read_in_five_minutes(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 130 and len(text.split()) <= 1200


def test_links_of_a_chinese_page_lead_to_chinese_pages() -> None:
    """But for the link to the page in English."""
    english = []
    for page in (ROOT / "README.zh-CN.md", *(ROOT / "docs").glob("*.zh-CN.md")):
        for text, target in re.findall(r"\[([^\]]+)\]\(([\w./-]+\.md)(?=[#)])", page.read_text(encoding="utf-8")):
            chinese = page.parent / target.replace(".md", ".zh-CN.md")
            if chinese.exists() and text != "English":
                english.append((page.name, target))
    assert english == []


def test_the_differences_from_hardware_are_all_in_chinese() -> None:
    tables = [
        (ROOT / "docs" / name).read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
        for name, heading in (("emulator.md", "## Differences from"), ("emulator.zh-CN.md", "## \u4e0e\u786c\u4ef6"))
    ]
    assert len(re.findall(r"(?m)^\|", tables[0])) == len(re.findall(r"(?m)^\|", tables[1])) > 80


@pytest.mark.usefixtures("chinese")
def test_a_part_that_became_a_sentence_is_translated() -> None:
    text = "Move to that release (-v 2.6.0), or write it anew with what PyTorch 2.1.0 has."
    assert shown(text) == "请换用那个版本（-v 2.6.0），或重新编写，用 PyTorch 2.1.0 已有的功能。"


@pytest.mark.usefixtures("chinese")
def test_what_an_editor_shows_of_an_edit_is_in_chinese() -> None:
    change = Change(Span(1, 0, 1, 10), "rule", Operation.MODIFY, "Any.", "torch.cuda.x", "torch.npu.x")
    text = hover_text(MigratedFile("a.py", changes=(change,)), None, "2.1.0", (0, 2))
    assert text.startswith("`torch.cuda.x` \u53d8\u4e3a `torch.npu.x` (rule)")


def test_many_lines_are_translated_one_by_one(chinese: None) -> None:
    """A rule file with twenty mistakes took minutes: the text was looked up from and to each of its sentences."""
    line = "a.json: $.rules[0].then (rule 'r'): 'renam' is not a key here, did you mean 'rename'."
    text = "\n".join(line.replace("[0]", f"[{number}]") for number in range(200))
    assert shown(f"Error: {text}").splitlines()[1:] == [shown(each) for each in text.splitlines()[1:]]
