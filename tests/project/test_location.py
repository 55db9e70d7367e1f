import os
from pathlib import Path

import pytest

from gpu2npu.project.errors import UsageError
from gpu2npu.project.location import Output, locate
from gpu2npu.project.settings import Settings
from gpu2npu.support.releases import VERSIONS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    (folder / "train.py").write_text("import torch\n")
    return folder


def refusal(source: Path, settings: Settings, output: Output | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        locate(source, settings, output)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message
    return message


def test_a_folder(project: Path, tmp_path: Path) -> None:
    place = locate(project, Settings("2.1.0"), Output(tmp_path / "new" / "out"))
    assert place.root == project.resolve()
    assert (place.name, place.only) == ("proj", None)
    assert place.destination == tmp_path.resolve() / "new" / "out" / "proj_msft"
    assert not (tmp_path / "new").exists()


def test_one_file(project: Path, tmp_path: Path) -> None:
    place = locate(project / "train.py", Settings("2.1.0"), Output(tmp_path / "out"))
    assert (place.root, place.name, place.only) == (project.resolve(), "train", "train.py")
    assert place.destination == tmp_path.resolve() / "out" / "train_msft"


@pytest.mark.parametrize("spelling", [".", "./", "../proj", "../proj/../proj/"])
def test_the_folder_is_named_after_what_it_is(project: Path, monkeypatch: pytest.MonkeyPatch, spelling: str) -> None:
    monkeypatch.chdir(project)
    assert locate(Path(spelling), Settings("2.1.0"), Output(Path("..") / "out")).name == "proj"


def test_versions(project: Path) -> None:
    assert VERSIONS[:2] == ("1.11.0", "2.1.0") and VERSIONS[-1] == "2.14.0" and len(VERSIONS) == 15
    message = refusal(project, Settings("2.0.0"))
    assert all(version in message for version in VERSIONS)


@pytest.mark.parametrize("version", ["2.15.0", "2.0.1", "2.1.1+cu118", "2.1.x", "latest", ""])
def test_other_versions_are_refused(project: Path, version: str) -> None:
    refusal(project, Settings(version))


@pytest.mark.parametrize(
    ("version", "release"),
    [("2.7.1", "2.7.1.post11"), ("2.7", "2.7.1.post11"), ("2.10.0", "2.10.0.post7"), ("1.11.3", "1.11.0")],
)
def test_a_patch_release_stands_for_its_minor_release(project: Path, version: str, release: str) -> None:
    settings = Settings(version)
    locate(project, settings)
    assert settings.release == release


def test_a_missing_source(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere", Settings("2.1.0"))


def test_a_link_as_source(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    assert "symbolic link" in refusal(link, Settings("2.1.0"))
    (tmp_path / "link.py").symlink_to(project / "train.py")
    assert "symbolic link" in refusal(tmp_path / "link.py", Settings("2.1.0"))


def test_a_file_that_is_not_python(project: Path) -> None:
    (project / "notes.txt").write_text("")
    assert "not a Python file" in refusal(project / "notes.txt", Settings("2.1.0"))


def test_an_unreadable_source(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    assert refusal(project, Settings("2.1.0")).endswith("cannot be read: Permission denied.")


def test_output_inside_the_source(project: Path, tmp_path: Path) -> None:
    assert "inside the input" in refusal(project, Settings("2.1.0"), Output(project))
    assert "inside the input" in refusal(project, Settings("2.1.0"), Output(project / "deep" / "out"))
    (tmp_path / "link").symlink_to(project)
    assert "inside the input" in refusal(project, Settings("2.1.0"), Output(tmp_path / "link" / "out"))


def test_output_beside_the_source_and_sharing_its_name_is_fine(project: Path, tmp_path: Path) -> None:
    locate(project, Settings("2.1.0"), Output(tmp_path))
    locate(project, Settings("2.1.0"), Output(tmp_path / "proj2"))


def test_output_that_is_no_folder(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refusal(project, Settings("2.1.0"), Output(tmp_path / "file"))
    assert "is not a folder" in refusal(project, Settings("2.1.0"), Output(tmp_path / "file" / "deeper"))


def test_output_that_may_not_be_written(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "no permission" in refusal(project, Settings("2.1.0"), Output(tmp_path / "out"))


def test_an_existing_output_needs_force(project: Path, tmp_path: Path) -> None:
    (tmp_path / "proj_msft").mkdir()
    assert "--force" in refusal(project, Settings("2.1.0"), Output(tmp_path))
    locate(project, Settings("2.1.0"), Output(tmp_path, True))


@pytest.mark.parametrize("make", [lambda path: path.write_text(""), lambda path: path.symlink_to("nowhere")])
def test_force_replaces_only_a_folder(project: Path, tmp_path: Path, make) -> None:
    make(tmp_path / "proj_msft")
    assert "not a folder" in refusal(project, Settings("2.1.0"), Output(tmp_path, True))


def test_force_never_replaces_the_folder_that_the_input_is_in(tmp_path: Path) -> None:
    source = tmp_path / "train_msft" / "train.py"
    source.parent.mkdir()
    source.write_text("")
    assert "would replace" in refusal(source, Settings("2.1.0"), Output(tmp_path, True))


def test_a_missing_rule_file(project: Path, tmp_path: Path) -> None:
    assert "'my.json'" in refusal(project, Settings("2.1.0", rules=(Path("my.json"),)))


def test_a_copy_names_what_was_changed_in_it(project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "out" / "proj_msft"
    copy.mkdir(parents=True)
    for name, time in (("a.py", 1), ("msFmkTranspltlog.txt", 2), ("model.pt", 3), ("train.py", 3)):
        (copy / name).touch()
        os.utime(copy / name, (time, time))
    message = refusal(project, Settings("2.1.0"), Output(tmp_path / "out"))
    assert message.endswith("Changed in it since, and lost with --force: train.py, model.pt.")
    os.utime(copy / "msFmkTranspltlog.txt", (3, 3))
    assert "Changed" not in refusal(project, Settings("2.1.0"), Output(tmp_path / "out"))
