import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from gpu2npu.cli.run import run
from gpu2npu.emulator.launch import SITE
from gpu2npu.support.releases import known_version

RUN = [sys.executable, "-m", "gpu2npu", "run"]
REPORT = "import os, sys; print(sys.argv[1:], os.environ['GPU2NPU_NPUS'], os.environ.get('GPU2NPU_STRICT'))"


@pytest.fixture
def gpu2npu_run(tmp_path):
    (tmp_path / "tell.py").write_text(REPORT)

    def start(*arguments, **environment):
        return subprocess.run(
            [*RUN, *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return start


def test_options_before_the_command_are_ours_and_those_behind_it_are_its_own(gpu2npu_run):
    ran = gpu2npu_run("--npus", "2", "--strict", "tell.py", "--npus", "9", "-m", "--strict", "--help", "--")
    assert ran.stdout == "['--npus', '9', '-m', '--strict', '--help', '--'] 2 1\n"


def test_modules_run_and_eight_npus_are_the_default(gpu2npu_run):
    assert gpu2npu_run("-m", "tell", "--strict").stdout == "['--strict'] 8 None\n"


def test_scripts_and_shell_children_run_under_our_interpreter(gpu2npu_run, tmp_path):
    script = "import sys; print(sys.executable)"
    (tmp_path / "which.py").write_text(script)
    path = os.pathsep.join(["/usr/bin", "/bin"])  # no virtual environment activated
    for command in (["which.py"], ["python", "which.py"], ["sh", "-c", "python which.py"]):
        assert gpu2npu_run(*command, PATH=path).stdout == f"{sys.executable}\n"


def test_children_see_the_emulator(gpu2npu_run):
    ran = gpu2npu_run("sh", "-c", 'python -c "import sys; print(sys.path[1])"')
    assert ran.stdout == f"{SITE}\n"


def test_the_exit_code_is_the_commands(gpu2npu_run):
    assert gpu2npu_run("-c", "raise SystemExit(7)").returncode == 7
    assert gpu2npu_run("sh", "-c", "exit 0").returncode == 0


def test_a_command_killed_by_a_signal_ends_as_the_shell_would_see_it(gpu2npu_run):
    killed = gpu2npu_run("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert killed.returncode == -signal.SIGKILL  # a shell prints 128 + 9


def test_signals_reach_the_command(tmp_path):
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); print('up', flush=True)"
    with subprocess.Popen([*RUN, "-c", f"{code}; time.sleep(1000)"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait(timeout=600) == 9


def test_an_old_operator_report_is_removed_first(gpu2npu_run, tmp_path):
    (tmp_path / "ops.csv").write_text("old")
    code = "import os; path = os.environ['GPU2NPU_OP_REPORT']; print(path, os.path.exists(path))"
    assert gpu2npu_run("--op-report", "ops.csv", "-c", code).stdout == f"{tmp_path / 'ops.csv'} False\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        ([], 2, "Missing CMD"),
        (["--npus", "0", "x.py"], 2, "'--npus': 0"),
        (["--npus", "many", "x.py"], 2, "'--npus'"),
        (["--npu", "2", "x.py"], 2, "No such option '--npu'"),
        (["--soc", "H100", "x.py"], 2, "--soc: 'H100' is not a chip that the emulator knows: choose one of Ascend910B"),
        (["--torch-npu", "2.0.0", "x.py"], 2, "there is no torch-npu 2.0.0; the nearest are 2.1.0, 2.1.0.post3"),
        (["no-such-command"], 127, "no-such-command"),
        (["no_such_script.py"], 127, "no_such_script.py"),
        (["--op-report", "/no/such/folder/ops.csv", "x.py"], 2, "/no/such/folder"),
        (["--op-report", "-", "x.py"], 2, "CMD writes to standard output"),
    ],
)
def test_bad_usage_is_one_clear_sentence(arguments, exit_code, words):
    result = CliRunner().invoke(run, arguments)
    assert result.exit_code == exit_code
    assert words in result.output
    assert "Traceback" not in result.output


def test_what_is_no_program_and_a_plan_that_cannot_be_written_are_sentences(gpu2npu_run, tmp_path):
    (tmp_path / "data").write_bytes(b"\0\1")
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "msFmkTranspltlog.txt").write_bytes("迁移 PyTorch 2.1.0".encode("gbk"))  # as other tools write it
    for options in ([], ["--shapes-only"]):
        result = gpu2npu_run(*options, "./data")
        assert (result.returncode, "./data: Exec format error" in result.stderr) == (126, True)
        assert "this copy was migrated for PyTorch 2.1.0" in result.stderr
    named = os.fsdecode(b"caf\xe9")
    assert gpu2npu_run("--shapes-only", "--plan", "plan.json", "true", named).returncode == 0
    assert json.loads((tmp_path / "plan.json").read_bytes())["command"][0] == "true"
    result = gpu2npu_run("--shapes-only", "--plan", f"{'a' * 300}.json", "true")
    assert result.returncode == 74 and "could not be written: File name too long" in result.stderr


def test_a_real_torch_npu_is_hidden_only_on_request(gpu2npu_run, tmp_path):
    (tmp_path / "real" / "torch_npu").mkdir(parents=True)
    (tmp_path / "real" / "torch_npu" / "__init__.py").touch()
    real = str(tmp_path / "real")
    refused = gpu2npu_run("tell.py", PYTHONPATH=real)
    assert refused.returncode == 2
    assert "--hide-real" in refused.stderr
    assert gpu2npu_run("--hide-real", "tell.py", PYTHONPATH=real).stdout == "[] 8 None\n"


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    result = CliRunner().invoke(run, ["-c", "pass"])
    assert result.exit_code == 2
    assert "pip install 'gpu2npu[emulator]'" in result.output


def test_the_release_is_that_of_the_installed_torch_unless_it_is_chosen(gpu2npu_run):
    code = "import os; print(os.environ['GPU2NPU_TORCH_NPU'])"
    assert gpu2npu_run("-c", code).stdout == f"{known_version(version('torch').partition('+')[0])}\n"
    assert gpu2npu_run("--torch-npu", "2.7.1.post2", "-c", code).stdout == "2.7.1.post2\n"


def test_help_shows_an_example():
    result = CliRunner().invoke(run, ["--help"])
    assert result.exit_code == 0
    assert "gpu2npu run train.py" in result.output


def test_the_chip_and_the_release_are_chosen(gpu2npu_run, training_python, tmp_path):
    code = (
        "import os, torch, torch_npu, warnings\n"
        "print(torch_npu.__version__, torch.npu.get_device_name())\n"
        "x = torch.ones(2).npu()\n"
        "with warnings.catch_warnings(record=True) as warned:\n"
        "    warnings.simplefilter('always')\n"
        "    torch.lgamma(x), torch.lgamma(x)\n"
        "print([(str(w.message)[:39], os.path.basename(w.filename)) for w in warned])"
    )
    (tmp_path / "chip.py").write_text(code)
    ran = gpu2npu_run("--torch-npu", "2.3", "--soc", "Ascend910B4", *training_python, "chip.py")
    assert ran.stdout.splitlines() == [
        "2.3.1.post6 Ascend910B4",
        "[(\"CAUTION: The operator 'aten::lgamma.out\", 'chip.py')]",
    ]
    same = gpu2npu_run(*training_python, "chip.py", GPU2NPU_SOC="Ascend910A")
    assert same.stdout.splitlines()[0].endswith(" Ascend910A")
