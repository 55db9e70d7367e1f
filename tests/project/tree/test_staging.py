import errno
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu.project.errors import OutputError
from gpu2npu.project.tree import staging
from gpu2npu.project.tree.staging import staged


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(destination: Path, text: str, replace: bool = False) -> None:
    with staged(destination, replace) as folder:
        assert not destination.exists() or destination.stat().st_ino != folder.stat().st_ino
        (folder / "a").write_text(text)


def test_the_folder_takes_its_place_at_the_end(tmp_path: Path) -> None:
    destination = tmp_path / "new" / "deep" / "out"
    write(destination, "one")
    assert (destination / "a").read_text() == "one"
    assert names(destination.parent) == ["out"]


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), staged(tmp_path / "new" / "deep" / "out", replace=False) as folder:
        (folder / "a").write_text("half")
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught, staged(tmp_path / "out", replace=False) as folder:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "a"))
    assert "No space left on device" in str(caught.value) and "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_parents_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="could not be written"):
        write(tmp_path / "file" / "out", "one")


@pytest.mark.parametrize("system_can_exchange", [True, False])
def test_an_old_output_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system_can_exchange: bool) -> None:
    if not system_can_exchange:
        monkeypatch.setattr(staging, "_exchange", lambda one, other: False)
    destination = tmp_path / "out"
    write(destination, "one")
    (destination / "extra").write_text("")
    write(destination, "two", replace=True)
    assert names(destination) == ["a"] and (destination / "a").read_text() == "two"
    assert names(tmp_path) == ["out"]


def test_the_end_of_a_removal_names_the_output_that_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_folder: Path, _progress: object) -> None:
        raise KeyboardInterrupt("Ended.")

    destination = tmp_path / "out"
    write(destination, "one")
    monkeypatch.setattr(staging, "_remove_if_possible", ended)
    with pytest.raises(KeyboardInterrupt, match=r"^Ended\. The output is in place; the next run removes"):
        write(destination, "two", replace=True)
    assert (destination / "a").read_text() == "two"


def test_an_old_output_survives_a_failure(tmp_path: Path) -> None:
    destination = tmp_path / "out"
    write(destination, "one")
    with pytest.raises(ZeroDivisionError), staged(destination, replace=True) as folder:
        (folder / "a").write_text("half")
        raise ZeroDivisionError
    assert (destination / "a").read_text() == "one"
    assert names(tmp_path) == ["out"]


def test_an_output_that_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    destination = tmp_path / "out"
    with pytest.raises(OutputError), staged(destination, replace=False) as folder:
        (folder / "a").write_text("ours")
        destination.mkdir()
        (destination / "a").write_text("theirs")
    assert (destination / "a").read_text() == "theirs"
    assert names(tmp_path) == ["out"]


def test_what_a_killed_run_left_is_removed_and_a_running_one_is_not_disturbed(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from gpu2npu.project.tree.staging import staged\n"
        "with staged(pathlib.Path(sys.argv[1]), False) as folder:\n"
        "    (folder / 'a').write_text('half'); os._exit(9)"
    )
    destination = tmp_path / "out[1]*"
    assert subprocess.run([sys.executable, "-c", script, destination], check=False).returncode == 9
    (stale,) = tmp_path.iterdir()
    assert stale.name.startswith(".out[1]*.partial-")
    with staged(destination, replace=False) as running:
        assert not stale.exists()
        with pytest.raises(ZeroDivisionError), staged(destination, replace=False):
            assert running.exists()
            raise ZeroDivisionError
    assert destination.exists()
