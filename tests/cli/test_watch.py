"""`--watch` shows the diff when it starts, and anew when a file of the project or of its rules was saved."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gpu2npu.cli.main import main
from gpu2npu.cli.migrate import show_if_saved, watch
from gpu2npu.cli.signals import EndedBySignal
from gpu2npu.project.settings import Settings

SOURCE = "import lib\nlib.gpu.run(1)\n"


def rule_text(name: str) -> str:
    example = {"before": "import lib.gpu\n", "after": f"import {name}\n"}
    rule = {"id": "own", "why": "Why.", "match": {"name": "lib.gpu"}, "then": {"rename": name}, "examples": [example]}
    return json.dumps({"rules": [rule]})


@pytest.fixture
def watched(tmp_path: Path) -> tuple[Path, Settings]:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "own.json").write_text(rule_text("lib.npu"), encoding="utf-8")
    return tmp_path / "src", Settings("2.1.0", rules=(tmp_path / "own.json",), jobs=1)


@pytest.fixture(autouse=True)
def signals_restored() -> Iterator[None]:
    saved = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


@pytest.fixture
def added(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[[], list[str]]:
    """The lines that the diffs shown since the last call add."""

    def read() -> list[str]:
        lines = capfdbinary.readouterr().out.decode().splitlines()
        return [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]

    return read


def test_the_diff_is_shown_at_the_start_and_after_each_save(
    watched: tuple[Path, Settings], added: Callable[[], list[str]]
) -> None:
    seen = show_if_saved(*watched, True, {})
    assert added() == ["lib.npu.run(1)"]
    again = show_if_saved(*watched, True, seen)
    assert (again, added()) == (seen, [])
    watched[1].rules[0].write_text(rule_text("lib.ascend"), encoding="utf-8")
    seen = show_if_saved(*watched, True, seen)
    assert added() == ["lib.ascend.run(1)"]
    (watched[0] / "b.py").write_text("from lib import gpu\n", encoding="utf-8")
    show_if_saved(*watched, True, seen)
    assert added() == ["lib.ascend.run(1)", "from lib import ascend"]


def test_a_rule_file_that_is_wrong_is_reported_and_does_not_end_it(
    watched: tuple[Path, Settings], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    watched[1].rules[0].write_text("{", encoding="utf-8")
    seen = show_if_saved(*watched, True, {})
    out, err = capfdbinary.readouterr()
    assert (out, err.count(b"\n")) == (b"", 1)
    assert err.startswith(b"Error: ") and b"own.json" in err
    watched[1].rules[0].write_text(rule_text("lib.npu"), encoding="utf-8")
    show_if_saved(*watched, True, seen)
    assert b"+lib.npu.run(1)" in capfdbinary.readouterr().out


@pytest.mark.parametrize("ctrl_c", [KeyboardInterrupt(), EndedBySignal(signal.SIGINT)], ids=repr)
def test_it_waits_between_looks_and_ends_at_ctrl_c(
    watched: tuple[Path, Settings], added: Callable[[], list[str]], ctrl_c: BaseException
) -> None:
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise ctrl_c
        (watched[0] / "a.py").write_text(SOURCE + "#\n" * len(waited), encoding="utf-8")

    assert watch(*watched, True, pause) == 0
    assert added() == ["lib.npu.run(1)"] * 3
    assert min(waited) >= 0.5


@pytest.mark.parametrize("more", [["-i", "."], ["-o", "out"]])
def test_it_takes_the_project_itself(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu2npu", "--watch", ".", *more])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("Error: The option --watch takes the project itself")


def test_on_the_command_line_it_needs_no_version(
    watched: tuple[Path, Settings], monkeypatch: pytest.MonkeyPatch, added: Callable[[], list[str]]
) -> None:
    def ctrl_c(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpu2npu.cli.migrate.watch", partial(watch, pause=ctrl_c))
    monkeypatch.setattr(sys, "argv", ["gpu2npu", "-r", str(watched[1].rules[0]), "-j1", "--watch", str(watched[0])])
    with pytest.raises(SystemExit) as caught:
        main()
    assert (caught.value.code, added()) == (0, ["lib.npu.run(1)"])
