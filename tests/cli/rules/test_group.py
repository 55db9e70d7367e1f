"""`gpu2npu rules`, and the options of the migration that choose rules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from gpu2npu.cli.main import cli, main
from gpu2npu.project.errors import UsageError
from gpu2npu.project.rule_examples import run_apart, run_examples
from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.match import kinds
from gpu2npu.support.releases import VERSIONS

RULE: dict[str, Any] = {
    "id": "fuse",
    "why": "The library has an NPU build.",
    "match": {"name": "fastlib.gpu.fuse"},
    "then": {"rename": "fastlib.npu.fuse"},
    "examples": [
        {"before": "from fastlib.gpu import fuse\nfuse(x)\n", "after": "from fastlib.npu import fuse\nfuse(x)\n"}
    ],
}
BROKEN = {**RULE, "examples": [*RULE["examples"], {"keep": "from fastlib.gpu import fuse\n"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *rules: dict[str, Any]) -> str:
    Path(name).write_text(json.dumps({"rules": list(rules)}), encoding="utf-8")
    return name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def refusal(*arguments: str) -> str:
    """Return the error message of a wrong command line."""
    done = run(*arguments)
    if isinstance(done.exception, UsageError):
        return str(done.exception)
    assert done.exit_code == 2
    return done.output


def test_help_of_the_group_loads_no_subcommand() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpu2npu", "rules", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"gpu2npu.rulebook", "gpu2npu.engine", "libcst", "jsonschema", "rich"}
    for command in ("docs", "explain", "list", "new", "schema", "show", "test", "validate"):
        assert f"  {command} " in done.stdout


def test_list() -> None:
    listed = run("rules", "list").output.splitlines()
    rules = load_rulebook().rules
    lines = [line for line in listed if not line.startswith("# ")]
    assert [line.split()[0] for line in lines] == [rule.id for rule in rules]
    assert listed[listed.index(lines[0]) - 1] == f"# built in, in {rules[0].file}"
    assert any(line.split() == ["torch-cuda", "torch.cuda", "->", "torch.npu"] for line in lines)


def test_list_as_json_is_what_rule_files_say(folder: Path) -> None:
    listed = json.loads(run("rules", "list", "--json", "-r", write("mine.json", RULE)).output)
    assert listed[0] == {**RULE, "file": "mine.json", "builtin": False}
    Path("all.json").write_text(
        json.dumps({"rules": [{k: v for k, v in rule.items() if k not in ("file", "builtin")} for rule in listed]})
    )
    schema = json.loads(run("rules", "schema").output)
    jsonschema.validate(json.loads(Path("all.json").read_text()), schema)


def test_list_for_a_version(folder: Path) -> None:
    rule_file = write("mine.json", {**RULE, "since": "2.4.0"})
    assert "fuse " in run("rules", "list", "-r", rule_file, "-v", "2.4.0").output
    assert "fuse " not in run("rules", "list", "-r", rule_file, "-v", "2.3.0").output
    assert all(version in refusal("rules", "list", "-v", "9") for version in VERSIONS)


def test_show(folder: Path) -> None:
    rule_file = write("mine.json", {**RULE, "until": "2.5.0", "where": {"files": ["src/*"]}})
    shown = run("rules", "show", "fuse", "-r", rule_file).output
    for part in ("The library has an NPU build.", "Becomes `fastlib.npu.fuse`.", "For PyTorch 2.5.0 and earlier."):
        assert part in shown
    for part in ("`src/*`", "It is in mine.json.", "- from fastlib.gpu import fuse", "+ from fastlib.npu import fuse"):
        assert part in shown
    assert "It is built in, in torch_cuda.json." in run("rules", "show", "torch-cuda").output
    assert "'torch-cud'; did you mean 'torch-cuda'" in refusal("rules", "show", "torch-cud")


@pytest.mark.parametrize("kind", kinds())
def test_a_new_rule_of_each_kind_works(folder: Path, kind: str) -> None:
    assert run("rules", "new", "mine", "--match", kind, "-o", "mine.json").exit_code == 0
    assert "all good" in run("rules", "validate", "mine.json").output
    assert run("rules", "test", "mine.json").exit_code == 0
    document = json.loads(Path("mine.json").read_text())
    jsonschema.validate(document, json.loads((folder / document["$schema"]).read_text()))
    assert document["rules"][0]["id"] == "mine"
    assert "$comment" in document and "$comment" in document["rules"][0]


def test_new_prints_or_writes_and_never_overwrites(folder: Path) -> None:
    printed = run("rules", "new").output
    assert json.loads(printed)["rules"][0]["id"] == "my-rule"
    assert not any(folder.iterdir())
    Path("mine.json").write_text("mine")
    assert "'mine.json' exists" in refusal("rules", "new", "-o", "mine.json")
    assert Path("mine.json").read_text() == "mine"
    assert "is not a rule's id" in refusal("rules", "new", "My Rule")
    assert "cannot be written" in refusal("rules", "new", "-o", "no/where.json")


def test_schema_path() -> None:
    path = run("rules", "schema", "--path").output.strip()
    assert Path(path).read_text(encoding="utf-8") == run("rules", "schema").output


def test_validate(folder: Path) -> None:
    assert run("rules", "validate", write("mine.json", RULE)).output == "mine.json: 1 rule and 1 example, all good.\n"
    assert "example 2 of the rule 'fuse' fails" in refusal("rules", "validate", write("bad.json", BROKEN))
    both = refusal("rules", "validate", "mine.json", "bad.json", "none.json")
    assert "bad.json" in both and "none.json" in both and "mine.json" not in both


def test_validate_tells_which_of_two_rules_counts(folder: Path) -> None:
    other = {**RULE, "id": "other", "then": {"keep": True}, "examples": [{"keep": "import fastlib.gpu\n"}]}
    rule_file = write("mine.json", RULE, other)
    output = run("rules", "validate", rule_file).output
    assert output.splitlines()[1:] == [
        "Note: where 'fuse' and 'other' both match, 'fuse' counts: both match the same, and it comes first in the "
        "order of files and rules."
    ]


def test_test(folder: Path) -> None:
    good = run("rules", "test", write("mine.json", RULE))
    assert good.exit_code == 0
    assert good.output == "mine.json: 1 of 1 example as shown\nExamples show all of 1 of 1 rule.\n"
    bad = run("rules", "test", write("bad.json", {**BROKEN, "id": "other"}), "mine.json")
    assert bad.exit_code == 1
    assert "FAILED other, example 2: the code is changed by " in bad.output
    assert "-from fastlib.gpu import fuse\n+from fastlib.npu import fuse\n" in bad.output
    assert "bad.json: 1 of 2 examples as shown\n" in bad.output


@pytest.mark.parametrize(
    ("match", "before", "reason"),
    [
        (
            {"argument": "gpus", "of": "fastlib.start"},
            "import otherlib\notherlib.start(gpus=1)\n",
            "since in line 2 `otherlib.start` is another name than the rule's",
        ),
        (
            {"argument": "gpus", "of": "fastlib.start"},
            "from fastlib import start\nstart(8)\n",
            "since in line 2 this call has no such argument: the rule matches the argument `gpus` of calls of "
            "`fastlib.start`",
        ),
        (
            {"code": "fastlib.run()"},
            "from otherlib import run\nrun()\n",
            "since in line 2 `run` means `otherlib.run` here, which is another name than the rule's",
        ),
        (
            {"code": "fastlib.run($X)"},
            "import fastlib\nfastlib.run()\n",
            "since in line 2 the argument 0 (from 0) is not given in `fastlib.run()`",
        ),
        (
            {"code": "fastlib.run(x=$X)", "types": {"X": "literal"}},
            "import fastlib\nfastlib.run(x=y)\n",
            "since in line 2 `y` is not a literal",
        ),
        (
            {"code": "fastlib.run()"},
            "import fastlib\nfastlib.run(3)\n",
            "since in line 2 the pattern has no argument for `3`, nor `...` for any more",
        ),
        (
            {"class": "fastlib.Net"},
            "import otherlib\nclass A(otherlib.Net): ...\n",
            "since in line 2 `otherlib.Net` is another name than the rule's",
        ),
        (
            {"decorator": "fastlib.step"},
            "f()\n",
            "no line has what it looks for: functions and classes with the decorator `fastlib.step`",
        ),
        (
            {"method": "to_gpu", "receiver": ["tensor"]},
            "def f(x):\n    x.to_gpu()\n",
            "since in line 2 `x` is not known to be a tensor",
        ),
        (
            {"member": "fastlib.Net.to_gpu"},
            "def f(x):\n    x.to_gpu()\n",
            "since in line 2 `x` is not known to be a `fastlib.Net`",
        ),
    ],
)
def test_test_says_why_nothing_in_an_example_is_matched(
    folder: Path, match: dict[str, Any], before: str, reason: str
) -> None:
    report = {"report": {"kind": "review", "message": "Look."}}
    rule = {**RULE, "match": match, "then": report, "examples": [{"keep": before, "reports": "review"}]}
    output = run("rules", "test", write("mine.json", rule), "-j", "1").output
    line = (
        "FAILED fuse, example 1: the rule reports nothing where the example says review: the rule matches nothing in it"
    )
    assert output.splitlines()[0] == f"{line}, {reason}"


def test_test_says_that_an_example_is_for_a_file_that_is_not_read(folder: Path) -> None:
    example = {"file": "a.zzz", "before": "from fastlib.gpu import fuse\n", "after": "from fastlib.npu import fuse\n"}
    output = run("rules", "test", write("mine.json", {**RULE, "examples": [example]})).output
    assert "matches nothing in it, since files named as 'a.zzz' are not read\n" in output


def test_test_names_what_no_example_shows(folder: Path) -> None:
    report = {"kind": "review", "message": "Look."}
    limited = {**RULE, "id": "limited", "since": "2.4.0", "then": {**RULE["then"], "report": report}}
    output = run("rules", "test", write("mine.json", limited)).output
    assert "FAILED limited, example 1" in output
    assert "  limited: no example shows its edit or its finding or a release that it is not for.\n" in output
    outside = {"version": "2.3.0", "keep": "from fastlib.gpu import fuse\n"}
    shown = {**limited, "then": RULE["then"], "examples": [*RULE["examples"], outside]}
    assert "Examples show all of 1 of 1 rule.\n" in run("rules", "test", write("mine.json", shown)).output
    inside = {**outside, "version": "2.5.0"}
    wrong = run("rules", "test", write("mine.json", {**shown, "examples": [*RULE["examples"], inside]}))
    assert "FAILED limited, example 2: the code is changed by limited" in wrong.output


def test_a_rule_whose_examples_show_nothing_is_not_called_good(folder: Path) -> None:
    write("mine.json", {**RULE, "examples": [{"keep": "x = 1\n"}]})
    valid, tested = run("rules", "validate", "mine.json"), run("rules", "test", "mine.json")
    gap = f"  {RULE['id']}: no example shows its edit.\n"
    assert valid.output == f"mine.json: 1 rule and 1 example, which do not show all:\n{gap}"
    assert tested.output.endswith(f"Examples show all of 0 of 1 rule.\n{gap}")
    assert (valid.exit_code, tested.exit_code) == (1, 1)


def test_an_example_that_is_not_python_has_no_difference_to_show(folder: Path) -> None:
    write("mine.json", {**RULE, "examples": [{"before": "fastlib.gpu.fuse(\n", "after": "g(\n"}]})
    lines = run("rules", "test", "mine.json").output.splitlines()
    assert lines[0].startswith(f"FAILED {RULE['id']}, example 1: syntax error at line 1")
    assert lines[1:3] == ["  at mine.json: $.rules[0].examples[0]", "mine.json: 0 of 1 example as shown"]


def test_processes_find_what_one_finds() -> None:
    rulebook = load_rulebook()
    rules = rulebook.rules[:60]
    found = {rule.id: runs for rule, runs in run_apart(rules, rulebook, 2)}
    assert [run for rule in rules for run in found[rule.id]] == list(run_examples(rules, rulebook))


@pytest.fixture
def pack(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that offers a rule, and must not be imported."""
    package, metadata = folder / "site" / "fastlib_rules", folder / "site" / "fastlib_rules-1.2.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / "rules.json").write_text(json.dumps({"rules": [RULE]}))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fastlib-rules\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text("[gpu2npu.rules]\nfastlib = fastlib_rules\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    return package


def test_a_pack_is_offered_and_applied_by_its_name(pack: Path) -> None:
    offered = run("rules", "list").output.splitlines()
    assert offered[-1] == "# pack:fastlib of fastlib-rules 1.2 is not applied: -r pack:fastlib"
    applied = run("rules", "list", "-r", "pack:fastlib").output.splitlines()
    assert applied[0] == "# pack:fastlib of fastlib-rules 1.2, in rules.json"
    assert applied[1].split()[0] == "fuse" and "is not applied" not in applied[-1]
    assert run("rules", "test", "pack:fastlib").exit_code == 0
    Path("train.py").write_text(RULE["examples"][0]["before"])
    assert (
        "+from fastlib.npu import fuse" in run("-i", "train.py", "-v", "2.7.1", "-r", "pack:fastlib", "--diff").output
    )
    Path("gpu2npu.toml").write_text('version = "2.7.1"\nrules = ["pack:fastlib"]\n')
    checked = json.loads(run("check", "train.py", "--format", "json", "-q", "--no-cache").output)
    assert checked["readiness"]["automatic"] == 1


def test_a_folder_stands_for_its_rule_files(folder: Path) -> None:
    (folder / "mine").mkdir()
    write("mine/a.json", RULE)
    write("mine/b.json", {**RULE, "id": "other", "match": {"name": "fastlib.gpu.other"}})
    write("mine/a.schema.json")
    listed = run("rules", "list", "-r", "mine").output.splitlines()
    assert [line.split()[0] for line in listed if not line.startswith("#")][:2] == ["fuse", "other"]


def test_a_pack_that_is_not_there_is_one_sentence(pack: Path) -> None:
    assert refusal("rules", "list", "-r", "pack:fastlob") == "No rule pack is called 'fastlob'; did you mean 'fastlib'?"
    (pack / "rules.json").unlink()
    assert "pack:fastlib: fastlib-rules 1.2 holds no rule file" in refusal("rules", "list", "-r", "pack:fastlib")
    Path("gpu2npu.toml").write_text('rules = ["pack:none"]\n')
    Path("train.py").write_text("import torch\n")
    assert "gpu2npu.toml: rules: No rule pack is called 'none'" in refusal("check", "train.py")


def test_the_diff_is_coloured_on_a_terminal(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["rules", "test", write("bad.json", BROKEN)], color=True)
    assert "\x1b[32m+from fastlib.npu import fuse" in done.output


# The migration itself.


@pytest.fixture
def project(folder: Path) -> Path:
    source = folder / "proj"
    source.mkdir()
    (source / "train.py").write_text("import torch\nx = torch.zeros(1).cuda()\ntorch.cuda.synchronize()\n")
    return source


def migrate(*arguments: str) -> str:
    """The migrated train.py."""
    done = run("-i", "proj", "-o", "out", "--force", *arguments)
    assert done.exit_code == 0, done.exception
    return Path("out/proj_msft/train.py").read_text()


def test_only_and_skipped_rules(project: Path) -> None:
    assert migrate("-v", "2.1.0", "--rules", "cuda-method") == (
        "import torch\nimport torch_npu\nx = torch.zeros(1).npu()\ntorch.cuda.synchronize()\n"
    )
    assert migrate("-v", "2.1.0", "--skip-rules", "cuda-method, torch-tensor-cuda") == (
        "import torch\nimport torch_npu\nx = torch.zeros(1).cuda()\ntorch.npu.synchronize()\n"
    )
    twice = ("--skip-rules", "cuda-method", "--skip-rules", "torch-tensor-cuda")
    assert migrate("-v", "2.1.0", *twice).endswith("x = torch.zeros(1).cuda()\ntorch.npu.synchronize()\n")
    message = refusal("-i", "proj", "-o", "new", "-v", "2.1.0", "--skip-rules", "cuda-methd")
    assert "'cuda-methd'; did you mean 'cuda-method'" in message
    assert "rules list" in refusal("-i", "proj", "-o", "new", "-v", "2.1.0", "--rules", "zzzzzz")
    assert not Path("new").exists()


def test_the_projects_own_settings(project: Path) -> None:
    example = {"before": "import torch\ntorch.zeros\n", "after": "import torch\ntorch.ones\n"}
    rule = {**RULE, "match": {"name": "torch.zeros"}, "then": {"rename": "torch.ones"}, "examples": [example]}
    write("proj/mine.json", rule)
    settings = 'version = "2.1.0"\nrules = ["mine.json"]\nskip-rules = ["torch-cuda"]\n'
    (project / "gpu2npu.toml").write_text(settings)
    configured = "import torch\nimport torch_npu\nx = torch.ones(1).npu()\ntorch.cuda.synchronize()\n"
    assert migrate() == configured
    assert "torch.npu.synchronize" in migrate("--skip-rules", "data-parallel")
    (project / "gpu2npu.toml").write_text(settings + 'exclude = ["*.py"]\n')
    assert migrate() == (project / "train.py").read_text()
    assert migrate("--exclude", "other") == configured
    (project / "gpu2npu.toml").write_text("verson = 3\n")
    assert "gpu2npu.toml: verson: is an unknown key" in refusal("-i", "proj", "-o", "new")


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"rules": [BROKEN]}), '{"rules": {"NoSuchRule": []}}'])
def test_a_bad_rule_file_writes_nothing(
    project: Path, content: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.json").write_text(content)
    monkeypatch.setattr(sys, "argv", ["gpu2npu", "-i", "proj", "-o", "out", "-v", "2.1.0", "-r", "bad.json"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: bad.json") and error.count("\n") == 1
    assert not Path("out").exists()


# Explanations.


def test_explain(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.gpu2npu]\nversion = '2.3.0'\n")
    output = run("rules", "explain", "proj/train.py:3").output
    assert output.startswith("train.py:3, for PyTorch 2.3.0\n    torch.cuda.synchronize()\n")
    assert "Changed by torch-cuda: " in output
    assert "  - torch.cuda.synchronize\n  + torch.npu.synchronize\n" in output
    assert "Nothing by cuda-method: `torch.cuda` is not a call of a method.\n" in output
    assert "for PyTorch 2.1.0" in run("rules", "explain", "proj/train.py:3", "-v", "2.1.0", "-i", "proj").output
    assert "  + import torch_npu\n" in run("rules", "explain", "proj/train.py:1").output
    (project / "other.py").write_text("x = 1\n")
    assert "No rule has its words on this line." in run("rules", "explain", "proj/other.py:1").output


@pytest.mark.parametrize(
    "place", ["proj/train.py", "proj/train.py:x", "proj/none.py:1", "proj:1", ":1", f"{'a' * 300}:1"]
)
def test_explain_needs_a_file_and_a_line(project: Path, place: str) -> None:
    assert "is not a file and a line of it" in refusal("rules", "explain", place)


def test_explain_refuses(project: Path) -> None:
    assert "it has 3 lines, and no line 9" in refusal("rules", "explain", "proj/train.py:9")
    assert "is not in the project" in refusal("rules", "explain", "proj/train.py:1", "-i", "/usr")
    assert "is not known" in refusal("rules", "explain", "proj/train.py:1", "-v", "9")
    assert "cannot be read" in refusal("rules", "explain", "proj/train.py:1", "-r", "none.json")
    assert "cannot be read (File name too long)" in refusal("rules", "list", "-r", "a" * 300)


# The reference.


def test_docs(folder: Path) -> None:
    assert run("rules", "docs", "-o", "reference").exit_code == 0
    pages = {path.name for path in Path("reference").iterdir()}
    assert {"index.md", "roles.md", "torch_cuda.md"} <= pages
    Path("reference/gone.md").write_text("# gone.json\n\n## x\n")
    Path("reference/mine.md").write_text("# Notes\n")
    run("rules", "docs", "-o", "reference")
    assert {path.name for path in Path("reference").iterdir()} == pages | {"mine.md"}
    Path("file").write_text("")
    assert "cannot be written" in refusal("rules", "docs", "-o", "file")


def test_docs_of_a_broken_built_in_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {**RULE, "examples": [{"keep": "f()\n", "reports": ["review"]}]}
    monkeypatch.setattr("gpu2npu.rulebook.load.builtin_files", lambda: [folder / write("broken.json", broken)])
    message = refusal("rules", "docs", "-o", "reference")
    assert message.startswith(f"{folder / 'broken.json'}: $.rules[0].examples[0].reports (rule 'fuse'): ['review'] is")
    assert "\n" not in message


def test_explain_shows_a_row_of_the_table_of_behaviour() -> None:
    shown = CliRunner().invoke(cli, ["rules", "explain", "float64-cast"])
    assert shown.exit_code == 0 and "float64-cast: other dtype" in shown.output
    assert "Source: torch_npu/csrc/aten/common/ToKernelNpu.cpp" in shown.output and "x.double()" in shown.output
