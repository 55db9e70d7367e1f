import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import gpu2npu
from gpu2npu.cli.console import PlainLines, progress_shown
from gpu2npu.cli.main import cli, main
from gpu2npu.cli.run import note_release

HEAVY = {"libcst", "pandas", "torch", "numpy", "rich", "jsonschema", "multiprocessing", "gpu2npu.engine"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "proj"
    folder.mkdir()
    (folder / "train.py").write_bytes(b"import torch\r\n\r\nx = torch.zeros(1).cuda()")
    (folder / "other.py").write_bytes(b"import os\n")
    return folder


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    """Runs the command in this process."""

    def run_command(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["gpu2npu", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfdbinary.readouterr()
        return Result(int(caught.value.code or 0), out.decode(), err.decode())

    return run_command


@pytest.fixture(autouse=True)
def signals_restored():
    import signal

    saved = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


def modules_loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpu2npu", *arguments], capture_output=True, text=True, check=True
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.parametrize("arguments", [["--help"], ["-V"], []])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_loaded_by(*arguments)
    assert "gpu2npu.cli.main" in loaded
    assert not loaded & HEAVY


def test_help(run) -> None:
    helped = run("--help")
    assert helped.code == 0 and helped.err == ""
    for option in ("input", "output", "version", "rule", "diff", "jobs", "force", "quiet", "log-level"):
        assert f"--{option}" in helped.out
    assert "gpu2npu -i resnet -o migrated -v 2.1.0" in helped.out
    assert "  run " in helped.out
    assert run("-h").out == run().out == helped.out


def test_own_version(run) -> None:
    assert run("-V").out == f"gpu2npu {gpu2npu.__version__}\n"


def test_a_migration(run, project: Path) -> None:
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0")
    assert done.code == 0
    assert (project.parent / "out" / "proj_msft" / "train.py").read_bytes() == (
        b"import torch\r\nimport torch_npu\r\n\r\nx = torch.zeros(1).npu()"
    )
    assert "Python files: 2\n  migrated: 1\n  unchanged: 1\n" in done.out
    assert "files done" not in done.err  # a run of less than five seconds


def test_long_names_and_module_form(project: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "gpu2npu",
        "--input",
        ".",
        "--output",
        "../out",
        "--version",
        "2.14.0",
        "--jobs",
        "1",
    ]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (project.parent / "out" / "proj_msft" / "train.py").exists()


def test_a_file_that_cannot_be_migrated(run, project: Path) -> None:
    (project / "broken.py").write_text("torch.cuda(\n")
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0", "-q")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("Error: broken.py: ") and done.err.count("\n") == 1
    assert (project.parent / "out" / "proj_msft" / "broken.py").read_text() == "torch.cuda(\n"


def test_quiet_says_nothing(run, project: Path) -> None:
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_diff_that_git_applies(run, project: Path) -> None:
    done = run("-i", "proj", "-v", "2.1.0", "--diff")
    assert done.code == 0
    assert {path.name for path in project.parent.iterdir()} == {"proj"}
    assert done.out.startswith("--- a/train.py\n+++ b/train.py\n") and "Python files: 2" in done.err
    subprocess.run(["git", "apply", "-"], cwd=project, input=done.out.encode(), check=True)
    assert (project / "train.py").read_bytes() == (b"import torch\r\nimport torch_npu\r\n\r\nx = torch.zeros(1).npu()")


def on_a_terminal(*arguments: str) -> str:
    """Return what the command shows on a terminal of its own."""
    terminal, its_end = os.openpty()
    with subprocess.Popen([sys.executable, "-m", "gpu2npu", *arguments], stdout=its_end, stderr=its_end):
        os.close(its_end)
        shown = b""
        with contextlib.suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as reader:
            while chunk := reader.read(10_000):
                shown += chunk
    return shown.decode()


def test_a_terminal_gets_a_bar_and_a_table(project: Path) -> None:
    shown = on_a_terminal("-i", "proj", "-o", "out", "-v", "2.1.0")
    assert "Migrating" in shown and "100%" in shown
    assert "proj -> " in shown and "│   migrated" in shown


def test_a_bar_says_what_is_being_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_shown(False, "Checking") as progress:
        progress(2, 2)
    assert "Checking" in capsys.readouterr().err


def test_a_terminal_gets_a_coloured_diff(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = "\x1b[32m+import torch_npu"
    assert coloured in on_a_terminal("-i", "proj", "-v", "2.1.0", "--diff")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured not in on_a_terminal("-i", "proj", "-v", "2.1.0", "--diff")


def test_names_that_no_terminal_can_show(project: Path) -> None:
    for name in ("caf\udce9.py", "\u6a21\u578b.py", "new\nline.py"):
        (project / name).write_text("torch.cuda(\n")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "gpu2npu", "-i", "proj", "-o", "out", "-v", "2.1.0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Error: caf\\udce9.py: " in done.stderr and "Error: \\u6a21\\u578b.py: " in done.stderr
    assert "Error: new\\nline.py: " in done.stderr


def test_user_rules_come_before_the_built_in_ones(run, project: Path) -> None:
    (project.parent / "bad.json").write_text('{"rules": [{"id": 7}]}')
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0", "-r", "bad.json")
    assert done.code == 2 and all("bad.json: $.rules[0]" in line for line in done.err.splitlines())


def test_log_level(run, project: Path) -> None:
    run("-i", "proj", "-o", "out", "-v", "2.1.0", "--log-level", "ERROR")
    log = (project.parent / "out" / "proj_msft" / "msFmkTranspltlog.txt").read_text()
    assert log.count("\n") == 1 and "'proj', written for PyTorch 2.1.0" in log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "proj", "-v", "2.1.0"], "-o/--output is missing"),
        (["-i", "proj", "-o", "out"], "-v/--version is missing"),
        (["-o", "out", "-v", "2.1.0"], "-i/--input is missing"),
        (["--diff"], "-i/--input is missing"),
        (["-i", "proj", "-o", "out", "-v", "1.8.0"], "1.11.0, 2.1.0, 2.2.0"),
        (["-i", "nowhere", "-o", "out", "-v", "2.1.0"], "'nowhere' does not exist"),
        (["-i", "proj", "-o", "proj/out", "-v", "2.1.0"], "inside the input"),
        (["-i", "proj", "-o", "out", "-v", "2.1.0", "-j", "0"], "--jobs"),
        (["-i", "proj", "-o", "out", "-v", "2.1.0", "--log-level", "loud"], "loud"),
        (["-i", "proj", "-o", "out", "-v", "2.1.0", "run", "true"], "before 'run'"),
        (["-i"], "-i"),
        (["-s"], "-i/--input is missing"),
        (["-sim", "-m"], "-i/--input is missing"),
        (["-a"], "-a"),
        (["-z"], "-z"),
        (["-i", "proj", "-o", "out", "-v", "2.1.0", "-a", "net"], "No loop that trains the model 'net'"),
        (["-i", "proj", "-o", "out", "-v", "2.1.0", "distributed", "-m", "train.py"], "never assigns"),
    ],
)
def test_wrong_usage_is_one_sentence(run, project: Path, arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert message in done.err and done.err.startswith("Error: ") and done.err.count("\n") == 1
    assert done.out == ""
    assert not (project.parent / "out").exists()


def test_an_existing_output(run, project: Path) -> None:
    arguments = ("-i", "proj", "-o", "out", "-v", "2.1.0")
    assert run(*arguments).code == 0
    refused = run(*arguments)
    assert refused.code == 2 and "--force" in refused.err
    assert run(*arguments, "--force").code == 0


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr("gpu2npu.project.migration.mirror", fail)


def test_a_full_disk(run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0", "-q")
    assert done.code == 74
    assert "No space left on device" in done.err and done.err.count("\n") == 1
    assert not (project.parent / "out").exists()


def test_a_bug_is_one_sentence_and_its_traceback_is_in_a_file(
    run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(project.parent))
    fail_with(monkeypatch, KeyError("x"))
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0", "-q")
    assert done.code == 70
    assert "KeyError: 'x'" in done.err and "--log-level debug" in done.err and done.err.count("\n") == 1
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0", "-q", "--log-level", "debug")
    (file,) = project.parent.glob("gpu2npu-*.log")
    assert str(file) in done.err and "Traceback" not in done.err
    assert "Traceback" in file.read_text()


def test_an_interrupt_leaves_nothing(run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    done = run("-i", "proj", "-o", "out", "-v", "2.1.0", "-q")
    assert done.code == 130
    assert done.err.strip() == "Error: Interrupted."
    assert not (project.parent / "out").exists()


def test_a_closed_pipe_is_no_error(project: Path) -> None:
    """`gpu2npu --diff | head -0`"""
    (project / "many.py").write_text("import torch\n" + "torch.cuda.synchronize()\n" * 3_000)
    diff = subprocess.Popen(
        [sys.executable, "-m", "gpu2npu", "-i", "proj", "-v", "2.1.0", "--diff", "-q"],
        cwd=project.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert diff.stdout is not None and diff.stderr is not None
    diff.stdout.close()
    assert diff.stderr.read() == b""
    diff.stderr.close()
    assert diff.wait(timeout=600) != 0


def test_the_diff_of_a_notebook_names_cells_and_applies(run, project: Path) -> None:
    cell = '  {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["x = 1\\n", "m.to(\'cuda\')"]}'
    (project / "a.ipynb").write_text(f'{{"cells": [\n{cell}\n], "metadata": {{}}, "nbformat": 4}}\n')
    (project / "run.sh").write_text("python train.py --device cuda\n")
    done = run("-i", "proj", "-v", "2.1.0", "--diff", "-q")
    assert "@@ -1,3 +1,3 @@ cell 1\n" in done.out
    (project.parent / "changes.patch").write_text(done.out, newline="")
    subprocess.run(["git", "apply", "../changes.patch"], cwd=project, check=True)
    assert "m.to('npu')" in (project / "a.ipynb").read_text()
    assert (project / "run.sh").read_text() == "python train.py --device npu\n"


def test_kinds_of_files_are_skipped(run, project: Path) -> None:
    (project / "run.sh").write_text("nvidia-smi\n")
    assert "npu-smi" in run("-i", "proj", "-v", "2.1.0", "--diff", "-q").out
    assert "npu-smi" not in run("-i", "proj", "-v", "2.1.0", "--diff", "-q", "--skip-kinds", "shell, yaml").out
    refused = run("-i", "proj", "-v", "2.1.0", "--diff", "--skip-kinds", "shel")
    assert refused.code == 2 and "'shel'" in refused.err


@pytest.mark.parametrize("flags", [[], ["-P"]] if sys.version_info >= (3, 11) else [[]])
def test_nothing_of_the_current_folder_is_imported(project: Path, flags: list[str]) -> None:
    for name in ("re", "ast", "json", "click", "libcst", "rich"):
        (project / f"{name}.py").write_text("raise SystemExit('imported')\n")
    command = [sys.executable, *flags, "-m", "gpu2npu", "-i", ".", "-v", "2.7.1", "--diff"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "torch.zeros(1).npu()" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk to write to")
@pytest.mark.parametrize("arguments", ["--help", "check proj -v 2.7.1", "-i proj -v 2.7.1 --diff"])
def test_a_full_standard_output_is_an_error_of_the_output(project: Path, arguments: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "gpu2npu", *arguments.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 74
    assert done.stderr.splitlines()[-1] == "Error: Standard output could not be written: No space left on device."


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str) -> None:
    """As docs/cli.md has them set up; the words are asked for as each shell's own script does."""
    request = {"COMP_WORDS": "gpu2npu rev", "COMP_CWORD": "1" if shell != "fish" else "rev"}
    for instruction, wanted in ((f"{shell}_source", "_GPU2NPU_COMPLETE"), (f"{shell}_complete", "review")):
        done = subprocess.run(
            [sys.executable, "-c", "import sys; sys.argv[0] = 'gpu2npu'; from gpu2npu.cli.main import main; main()"],
            env={**os.environ, **request, "_GPU2NPU_COMPLETE": instruction},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 and wanted in done.stdout, done.stderr


@pytest.mark.parametrize("option", ["-i", "-o"])
def test_an_empty_path_is_refused(option: str, tmp_path: Path) -> None:
    given = {"-i": str(tmp_path), "-o": str(tmp_path / "out"), option: ""}
    done = CliRunner().invoke(cli, [word for pair in given.items() for word in pair] + ["-v", "2.1.0"])
    assert done.exit_code == 2 and "it is empty" in done.output


def test_progress_without_a_terminal_is_for_long_runs_and_ten_lines_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter(range(20_000))
    lines = PlainLines(lambda: float(next(seconds)))
    for done in range(1, 10_001):
        lines.show(done, 10_000)
    assert len(capsys.readouterr().err.splitlines()) == 10
    lines = PlainLines(lambda: 0.0)
    lines.show(10, 10)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments", [["-i", "{}"], ["check", "{}"], ["check", "--repos", "{}"], ["verify", "-i", "{}"]]
)
def test_an_address_in_place_of_a_folder(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli, [each.format("https://example.org/a/b") for each in arguments])
    assert done.exit_code == 2
    assert "https://example.org/a/b is an address; clone it first, and name the folder." in done.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["missing.py"], "missing.py: there is no such script."),
        (["-m", "pkg.missing"], "-m pkg.missing: there is no such module in"),
        (["no-such-program"], "no-such-program: there is no such command on PATH."),
    ],
)
def test_verify_refuses_what_the_project_lacks_before_it_migrates(tmp_path, command, message):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").touch()
    done = CliRunner().invoke(cli, ["verify", "-i", str(tmp_path), "-v", "2.1.0", "--", *command])
    assert done.exit_code == 2 and message in done.stderr


def test_another_release_than_that_of_a_copy_is_reported(tmp_path, capsys):
    note_release(tmp_path, "2.1.0")
    (tmp_path / "msFmkTranspltlog.txt").write_text("2026 gpu2npu INFO 0.1.0: 'a', written for PyTorch 2.1.0\n")
    note_release(tmp_path, "2.1.0.post3")
    assert not capsys.readouterr().err
    note_release(tmp_path, "2.13.0")
    assert "migrated for PyTorch 2.1.0, and the emulated NPU is that of torch_npu 2.13.0" in capsys.readouterr().err
