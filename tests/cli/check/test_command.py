import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft4Validator, Draft202012Validator

from gpu2npu.cli.main import main
from gpu2npu.support.releases import RELEASES

SCHEMA = Path(__file__).parents[2] / "report" / "check" / "data" / "sarif-schema-2.1.0.json"
SOURCE = (
    "import torch\n\n\ndef train(model):\n    model.cuda()\n"
    "    torch.cuda.jiterator._create_jit_fn('x')\n    return model(device=unknown('cuda'))\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "proj"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text(SOURCE)
    (folder / "clean.py").write_text("import os\n")
    return folder


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    """Runs the command in this process."""

    def run_command(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["gpu2npu", "check", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        return Result(int(caught.value.code or 0), out.decode(), err.decode())

    return run_command


def test_a_file_that_does_not_name_torch_is_judged_by_where_its_names_come_from(project: Path, run) -> None:
    (project / "train.py").write_text("import torch as th\n")
    (project / "b.py").write_text("from train import th\n")
    (project / "c.py").write_text("from b import th\nth.sspaddmm(1, 2, 3)\n")
    for _ in range(2):  # the second time from the cache
        result = run(".", "-v", "2.1.0")
        assert (
            result.code == 1 and "torch.sspaddmm [unsupported, torch-api]" in result.out and ": c.py:2\n" in result.out
        )
    (project / "train.py").write_text("class th: ...\n")
    assert "No findings" in run(".", "-v", "2.1.0").out


def test_text_is_each_cause_and_a_verdict(project: Path, run) -> None:
    result = run(".", "-v", "2.7.1")
    lines = result.out.splitlines()
    assert result.code == 1
    assert lines[0] == "blocker: torch.cuda.jiterator._create_jit_fn [unsupported, cuda-jiterator]"
    assert lines[2] == "  1 place in 1 file: train.py:6"
    assert any(line.startswith("proj: blocked") and "torch_npu-2.7.1" in line for line in lines)
    assert any("torch.cuda.jiterator" in line for line in lines[lines.index("Blockers, the most used first:") + 1 :])
    assert any(line.startswith("Effort: ") for line in lines)
    assert result.err == ""


def test_a_line_for_each_place(project: Path, run) -> None:
    lines = run(".", "-v", "2.7.1", "--format", "lines").out.splitlines()
    assert lines[0].startswith("train.py:6:5 cuda-jiterator [blocker, unsupported] torch.cuda.jiterator.")


@pytest.mark.parametrize(
    ("bar", "code"), [("unsupported", 1), ("fallback", 1), ("any", 1), ("blocker", 1), ("note", 1), ("never", 0)]
)
def test_the_bar_for_what_does_not_work(project: Path, run, bar: str, code: int) -> None:
    assert run(".", "--fail-on", bar).code == code


@pytest.mark.parametrize(
    ("bar", "code"), [("unsupported", 0), ("unknown", 0), ("fallback", 0), ("any", 1), ("blocker", 0), ("change", 1)]
)
def test_the_bar_for_what_needs_a_look(project: Path, run, bar: str, code: int) -> None:
    assert run(".", "--fail-on", bar, "--ignore", "cuda-jiterator").code == code


def test_a_clean_project(project: Path, run) -> None:
    (project / "train.py").unlink()
    result = run(".", "--fail-on", "any")
    assert (result.code, result.err.count("\n")) == (0, 1)
    assert "nothing in it is for CUDA" in result.out


def test_select_and_ignore(project: Path, run) -> None:
    every = run(".", "-q").out
    assert "cuda-jiterator]" in every and "device-string]" in every
    assert "device-string]" not in run(".", "-q", "--select", "cuda-*").out
    assert "cuda-jiterator]" not in run(".", "-q", "--ignore", "cuda-jiterator,torch-api").out
    wrong = run(".", "--select", "cuda-jiteratr")
    assert wrong.code == 2
    assert "did you mean 'cuda-jiterator'" in wrong.err


def test_the_version_is_that_of_the_settings_or_the_latest(project: Path, run) -> None:
    latest = run(".")
    assert f"PyTorch {RELEASES[-1]}" in latest.out
    assert latest.err == f"Note: no version is given; checked for the latest, {RELEASES[-1]} (-v).\n"
    (project / "pyproject.toml").write_text('[tool.gpu2npu]\nversion = "2.3.1"\nexclude = ["train.py"]\n')
    assert "PyTorch 2.3.1" in run(".").out
    (project / "inner").mkdir()
    (project / "inner" / "train.py").write_text(SOURCE)
    inner = run("inner")
    assert "PyTorch 2.3.1" in inner.out
    assert "inner/train.py:6\n" in inner.out
    assert "PyTorch 2.7.1" in run(".", "-v", "2.7.1").out


def test_chips(project: Path, run) -> None:
    (project / "train.py").write_text("import torch\nwith torch.autocast('cuda', dtype=torch.bfloat16): pass\n")
    assert "npu-limit" not in run(".", "-q").out
    for _ in range(2):  # the second time from the cache
        output = run(".", "-q", "--soc", "Ascend910A", "--soc", "910b").out
        assert "  On 910A: Chips of the first generation" in output and "Ascend910A, Ascend910B)" in output
    assert "npu-limit" not in run(".", "-q", "--soc", "A3").out
    (project / "gpu2npu.toml").write_text('soc = ["910A", "A3"]\n')
    assert "  On 910A: Chips of the first generation" in run(".", "-q").out
    assert "npu-limit" not in run(".", "-q", "--soc", "A3").out
    wrong = run(".", "--soc", "A100")
    assert wrong.code == 2 and "no chip is called 'A100'" in wrong.err


def test_json(project: Path, run) -> None:
    document = json.loads(run(".", "--format", "json", "-v", "2.7.1").out)
    (file,) = document["files"]
    assert file["path"] == "train.py"
    assert [finding["line"] for finding in file["findings"] if finding["kind"] == "unsupported"] == [6]
    assert document["readiness"]["verdict"] == "blocked"
    assert document["readiness"]["automatic"] == len(file["changes"]) - 1  # the import is no use
    assert sum(document["counts"].values()) == len(file["findings"])


def test_sarif_and_github_into_files(project: Path, run) -> None:
    assert run(".", "--format", "sarif", "-o", "out/check.sarif", "-q").out == ""
    log = json.loads((project / "out" / "check.sarif").read_text())
    Draft4Validator(json.loads(SCHEMA.read_text())).validate(log)
    assert {result["ruleId"] for result in log["runs"][0]["results"]} >= {"cuda-jiterator", "device-string"}
    assert run(".", "--format", "github", "-q").out.startswith("::error file=train.py,line=6,endLine=6,col=5,")


def test_formats_for_other_ci(project: Path, run) -> None:
    issues = json.loads(run(".", "--format", "gitlab", "-q", "-o", "-").out)
    assert {"cuda-jiterator", "device-string"} <= {issue["check_name"] for issue in issues}
    assert '<testsuites name="gpu2npu" tests="2" failures="1"' in run(".", "--format", "junit", "-q").out
    link = json.loads(run(".", "--format", "sarif", "-q", "--docs-url", "https://example.org/docs").out)
    assert "https://example.org/docs/rules/" in link["runs"][0]["tool"]["driver"]["rules"][0]["helpUri"]


def test_statistics(project: Path, run) -> None:
    lines = run(".", "--statistics", "-q").out.splitlines()
    assert lines[0].split() == ["findings", "edits", "causes", "files", "severity", "rule"]
    assert ["1", "0", "1", "1", "blocker", "cuda-jiterator"] in [line.split() for line in lines]
    rows = json.loads(run(".", "--statistics", "--format", "json", "-q").out)
    assert [each["rule"] for each in rows] == [line.split()[-1] for line in lines[1:]]


def test_the_schema_describes_the_json(project: Path, run) -> None:
    schema = json.loads(run("--schema").out)
    Draft202012Validator(schema).validate(json.loads(run(".", "--format", "json", "-q").out))


@pytest.mark.parametrize("name", ["stdin.py", "src/new.py", "run.sh"])
def test_standard_input(project: Path, run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (project / "pyproject.toml").write_text('[tool.gpu2npu]\nversion = "2.3.1"\n')
    text = "export CUDA_LAUNCH_BLOCKING=1\nnvidia-smi --gpu-reset\n" if name == "run.sh" else SOURCE
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    result = run("-", "--stdin-filename", name, "--format", "json")
    document = json.loads(result.out)
    assert (document["pytorch"], document["project"], document["root"]) == ("2.3.1", name, str(project))
    assert [file["path"] for file in document["files"]] == [name]
    assert not (project / name).exists() and result.err == ""


def test_a_list_on_standard_input(project: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"# mine\n.\n")))
    (line,) = run("--repos", "-", "-j", "1").out.splitlines()
    assert json.loads(line)["readiness"]["verdict"] == "blocked"


def test_many_repositories(project: Path, run) -> None:
    (project / "repos.txt").write_text(".\nnowhere\n")
    last = run("--repos", "repos.txt", "-j", "1", "-v", "2.7.1")
    (project / "last.jsonl").write_text(last.out)
    page = run(
        "--repos",
        "repos.txt",
        "-j",
        "1",
        "-v",
        "2.7.1",
        "--format",
        "html",
        "-o",
        "out/all.html",
        "--last",
        "last.jsonl",
    )
    assert page.code == 1 and len(page.out.splitlines()) == 2
    (own,) = (project / "out" / "all_pages").glob("proj-*.html")
    assert f'<a href="all_pages/{own.name}">proj</a>' in (project / "out" / "all.html").read_text()
    run("--repos", "repos.txt", "-j", "1", "-v", "2.7.1", "--format", "csv", "--by", "cause", "-o", "causes.csv")
    rows = list(csv.DictReader((project / "causes.csv").read_text().splitlines()))
    assert rows[0]["names"].startswith("torch.cuda.jiterator") and rows[0]["blocks"] == rows[0]["alone"] == "1"


def test_a_baseline(project: Path, run) -> None:
    assert run(".", "--baseline", "b.json").code == 2
    assert run(".", "--update-baseline").code == 2
    assert run(".", "--baseline", "b.json", "--update-baseline").code == 0
    (project / "train.py").write_text("# a line\n" + SOURCE)
    known = run(".", "--baseline", "b.json", "--fail-on", "any")
    assert known.code == 0
    assert "of the baseline" in known.out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nowhere"],
        [".", "-v", "9.9.9"],
        [".", "--format", "xml"],
        [".", "--fail-on", "review"],
        [".", "--executor", "dask://h:1"],
        [".", "-r", "nowhere.json"],
        ["--repos", "nowhere"],
        ["--repos", "nowhere", "."],
        ["--repos", "train.py", "--format", "sarif"],
        ["--repos", "train.py", "--format", "html"],
        ["--repos", "train.py", "--format", "html", "-o", "-"],
        ["--repos", "train.py", "--statistics"],
        ["--repos", "train.py", "--add-skips"],
        ["train.py", "--add-skips", "-o", "report.txt"],
        ["train.py", "--report", "csv", "-o", "-"],
        ["--repos", "train.py", "--format", "csv"],
        ["--repos", "train.py", "--last", "nowhere"],
        [".", "--last", "train.py"],
        [".", "--format", "csv"],
        ["-", "."],
        ["-", "--stdin-filename", "a.bin"],
        ["-", "--stdin-filename", ""],
        ["-", "--baseline", "b.json", "--update-baseline"],
        [".", "--statistics", "--format", "sarif"],
        [".", "--docs-url", "docs"],
        ["--repos", "train.py", "--executor", "dask://"],
        ["--repos", "train.py", "--executor", "slurm://host:1"],
        ["--repos", "train.py", "--executor", "ray://localhost:1"],
    ],
)
def test_bad_usage_is_one_sentence(project: Path, run, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"import torch\n")))
    result = run(*arguments)
    assert result.code == 2
    assert result.err.startswith("Error: ") and result.err.count("\n") == 1
    assert result.out == ""


def test_help_has_an_example(run) -> None:
    result = run("--help")
    assert result.code == 0
    assert "gpu2npu check . --format sarif" in result.out


NAMES = {
    "comma": b'a,"quoted",\nname.py',
    "formula": b"=1+1.py",
    "not UTF-8": b"caf\xe9\xff.py",
    "spaces": b" %0A::x y.py",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_odd_names_keep_every_format_valid(project: Path, run, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(project) + b"/" + name)).write_text(SOURCE)
    plain = run(".", "-q", "--format", "lines")
    assert plain.code == 1
    assert sum("cuda-jiterator [" in line for line in plain.out.splitlines()) == 2
    log = json.loads(run(".", "-q", "--format", "sarif").out)
    Draft4Validator(json.loads(SCHEMA.read_text())).validate(log)
    assert len(json.loads(run(".", "-q", "--format", "json").out)["files"]) == 2
    annotations = run(".", "-q", "--format", "github").out.splitlines()
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in annotations)
    assert run(".", "-q", "--baseline", "b.json", "--update-baseline").code == 0
    assert run(".", "-q", "--baseline", "b.json", "--fail-on", "any").code == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"import torch\nx = '" + b"cuda " * 400_000 + b"'\nx.cuda(\n", "syntax error"),
        (b"import torch\nx = " + b"(" * 5_000 + b"torch.cuda" + b")" * 5_000 + b"\n", "nested too deeply"),
        (b"import torch\nx.cuda()\0\n", "null byte"),
        (b"# \xff\xfe\nimport torch.cuda\n", "utf-8"),
    ],
    ids=["2 MB on a line", "5,000 parentheses", "null bytes", "not text"],
)
def test_what_cannot_be_parsed_is_reported(project: Path, run, content: bytes, reason: str) -> None:
    (project / "bad.py").write_bytes(content)
    result = run(".", "--ignore", "*", "-q")
    assert result.code == 1
    (line,) = [line for line in result.out.splitlines() if line.startswith("bad.py")]
    assert line.startswith("bad.py: not checked: ") and reason in line
    assert run(".", "--fail-on", "never", "-q").code == 0
    log = json.loads(run(".", "--format", "sarif", "-q").out)
    assert reason in json.dumps(log["runs"][0]["invocations"][0]["toolExecutionNotifications"])


@pytest.mark.parametrize(("bar", "code"), [("unsupported", 1), ("never", 0)])
def test_a_file_that_is_too_large_was_not_checked(project: Path, run, bar: str, code: int) -> None:
    with (project / "train.py").open("ab") as large:
        large.truncate(4_000_001)
    result = run("train.py", "--fail-on", bar, "-q", "--format", "lines")
    assert result.code == code
    (line,) = [line for line in result.out.splitlines() if line.startswith("train.py")]
    assert line.startswith("train.py: not checked: it was not looked at: it is larger than 4 MB")


def test_a_long_line_that_can_be_parsed_is_cut_in_reports(project: Path, run) -> None:
    (project / "long.py").write_bytes(b"import torch; x = '" + b"abc " * 900_000 + b"'; torch.cuda.jiterator.f(x)\n")
    result = run(".", "--format", "sarif", "-q")
    found = [each for each in json.loads(result.out)["runs"][0]["results"] if "long.py" in json.dumps(each)]
    assert len(result.out) < 100_000
    assert [each["ruleId"] for each in found] == ["cuda-jiterator"]


def test_pipes_links_and_folders_that_cannot_be_read(project: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(project / "pipe.py")
    (project / "loop").symlink_to("loop")
    (project / "up").symlink_to("..")
    (project / "closed").mkdir()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):  # tests may run as root, whom no mode keeps out
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = run(".", "-v", "2.7.1", "--ignore", "*")
    assert result.code == 1
    assert "closed: not checked: the folder cannot be read: Permission denied" in result.out
    assert "pipe.py: a named pipe" in result.err
    assert "up: left out" in result.err


def test_names_in_the_tables_of_a_migration_stay_cells(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES.values():
        Path(os.fsdecode(os.fsencode(project) + b"/" + name)).write_text(SOURCE)
    out = project.parent / "out"
    command = [sys.executable, "-m", "gpu2npu", "-i", str(project), "-o", str(out), "-v", "2.7.1", "-q"]
    subprocess.run(command, check=True, timeout=600)
    table = (out / "proj_msft" / "unsupported_api.csv").read_bytes().decode()
    rows = list(csv.reader(io.StringIO(table, newline="")))
    assert len({len(row) for row in rows}) == 1
    assert len({row[0] for row in rows}) == len(NAMES) + 2


def test_what_is_one_line_or_apart_does_not_block(project: Path, run) -> None:
    """A float64 layer, a pin, a CI image and a test are not reasons to write a project anew."""
    (project / "train.py").write_text("import torch\nnet = torch.nn.Linear(2, 2).double()\n")
    (project / "environment.yml").write_text("dependencies:\n  - pytorch-cuda=12.1\n  - pip:\n    - mosaicml\n")
    (project / ".github").mkdir()
    (project / ".github" / "ci.yml").write_text("jobs:\n  test:\n    container: nvcr.io/nvidia/pytorch:24.01-py3\n")
    (project / "tests").mkdir()
    (project / "tests" / "test_it.py").write_text("import composer\n")
    (project / "lib.py").write_text("import torch\n\ndef f(x):\n    import composer\n    return x\n")
    result = run(".", "-v", "2.7.1", "-q", "--format", "json", "--fail-on", "never")
    document = json.loads(result.out)
    assert document["readiness"]["verdict"] == "review"
    assert document["readiness"]["apart"] == {"tests": 1, "imports inside functions": 1}
    severities = {
        (file["path"], finding["rule"]): finding["severity"]
        for file in document["files"]
        for finding in file["findings"]
    }
    assert severities["train.py", "npu-limit"] == "change"
    assert severities["environment.yml", "package-composer"] == "environment"
    assert {severity for (path, _), severity in severities.items() if path == ".github/ci.yml"} == {"environment"}
    (project / "lib.py").write_text("import composer\n")
    assert "proj: blocked" in run(".", "-v", "2.7.1", "-q").out


def test_a_path_that_is_too_long_is_refused(run):
    result = run("a" * 5000)
    assert result.code == 2
    assert "longer than the name of a file may be" in result.err
