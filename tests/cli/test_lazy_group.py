"""The words after `--`: a command for the launcher, unless a subcommand comes before them."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpu2npu.cli.lazy_group import LazyCommand, LazyGroup
from gpu2npu.cli.main import cli
from gpu2npu.report.launcher import LAUNCHER_NAME, launcher_bytes


@click.group(
    cls=LazyGroup,
    lazy_commands={"sub": LazyCommand(__name__, "subcommand", "")},
    invoke_without_command=True,
)
@click.option("-i")
@click.option("-f", is_flag=True)
@click.pass_context
def group(ctx: click.Context, i: str | None, f: bool) -> None:
    click.echo(f"group {i} {f} {ctx.args if ctx.invoked_subcommand is None else ctx.invoked_subcommand}")


@click.command()
@click.argument("words", nargs=-1)
def subcommand(words: tuple[str, ...]) -> None:
    click.echo(f"sub {list(words)}")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["-i", "a", "--", "python", "train.py", "-f"], "group a False ['python', 'train.py', '-f']\n"),
        (["-f", "--", "sub", "--", "--help"], "group None True ['sub', '--', '--help']\n"),
        (["sub", "--", "-f"], "group None False sub\nsub ['-f']\n"),
        (["-i", "a", "sub", "b", "--", "-f"], "group a False sub\nsub ['b', '-f']\n"),
        (["-i", "a"], "group a False []\n"),
    ],
)
def test_whose_the_words_are(monkeypatch: pytest.MonkeyPatch, arguments: list[str], printed: str) -> None:
    monkeypatch.setattr(LazyGroup, "get_command", lambda self, ctx, name: subcommand if name == "sub" else None)
    assert CliRunner().invoke(group, arguments).output == printed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["chek", "."], "There is no command 'chek'; did you mean 'check'?"),
        (["rules", "validat"], "There is no command 'validat'; did you mean 'validate'"),
        (["xyzzy"], "There is no command 'xyzzy'; the commands are analyse, check, "),
        (["check", ".", "--format", "gitlub"], "Did you mean 'gitlab' or 'github'?"),
        (["check", ".", "--fail-on", "bloker"], "Did you mean 'blocker'?"),
        (["check", ".", "--fail-on", "xyzzy"], "'never'.\n"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2 and sentence in done.output


@pytest.fixture
def project(tmp_path: Path) -> list[str]:
    """Options that migrate a project of one card."""
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj" / "train.py").write_text("import torch\n\nx = torch.zeros(1).cuda()\n")
    return ["-i", str(tmp_path / "proj"), "-o", str(tmp_path / "out"), "-v", "2.1.0", "-q"]


def test_the_command_is_in_the_launcher(project: list[str], tmp_path: Path) -> None:
    command = ["python", "train.py", "--name", "it's $HOME", "-i", "x"]
    done = CliRunner().invoke(cli, [*project, "--", *command])
    assert done.exit_code == 0, done.output
    launcher = tmp_path / "out" / "proj_msft" / LAUNCHER_NAME
    assert launcher.read_bytes() == launcher_bytes(command)
    assert launcher.stat().st_mode & 0o111


def test_a_launcher_that_an_earlier_migration_wrote_gets_the_command(project: list[str], tmp_path: Path) -> None:
    (tmp_path / "proj" / LAUNCHER_NAME).write_bytes(launcher_bytes(["python", "old.py"]))
    assert CliRunner().invoke(cli, [*project, "--", "python", "new.py"]).exit_code == 0
    assert (tmp_path / "out" / "proj_msft" / LAUNCHER_NAME).read_bytes() == launcher_bytes(["python", "new.py"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--"], "the training command is missing"),
        (["--diff", "--", "python", "train.py"], "--diff writes nothing"),
    ],
)
def test_what_has_no_meaning_is_refused(project: list[str], tmp_path: Path, more: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, [*project, *more])
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "out").exists()


def test_a_command_alone_is_no_migration() -> None:
    done = CliRunner().invoke(cli, ["--", "python", "train.py"])
    assert done.exit_code == 2
    assert "-i/--input is missing" in done.output
