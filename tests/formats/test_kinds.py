import pytest

from gpu2npu.formats.kinds import FileKind, is_makefile, kind_of, needs_head


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/train.py", FileKind.PYTHON),
        ("run.SH", FileKind.SHELL),
        ("job.slurm", FileKind.SHELL),
        (".env", FileKind.SHELL),
        ("GNUmakefile", FileKind.SHELL),
        ("a.yml", FileKind.YAML),
        ("a.jsonc", FileKind.JSON),
        ("a.JSON", FileKind.JSON),
        ("pyproject.toml", FileKind.TOML),
        ("Pipfile", FileKind.TOML),
        ("setup.cfg", FileKind.INI),
        ("requirements.txt", FileKind.REQUIREMENTS),
        ("requirements-gpu.txt", FileKind.REQUIREMENTS),
        ("dev_requirements.in", FileKind.REQUIREMENTS),
        ("requirements/train.txt", FileKind.REQUIREMENTS),
        ("constraints.txt", FileKind.REQUIREMENTS),
        ("docker/Dockerfile.cuda", FileKind.DOCKERFILE),
        ("gpu.dockerfile", FileKind.DOCKERFILE),
        ("a b.ipynb", FileKind.NOTEBOOK),
        ("poetry.lock", FileKind.TOML),
        ("composer.lock", None),
        ("package-lock.json", None),
        ("a.jsonl", None),
        ("a.PY", None),
        ("notes.txt", None),
        ("Dockerfiles", None),
        (".json", None),
    ],
)
def test_names(path: str, kind: FileKind | None) -> None:
    assert kind_of(path) is kind


def test_first_lines() -> None:
    assert needs_head("bin/train") and not needs_head("a.b")
    assert kind_of("train", b"#!/usr/bin/env bash\nnvidia-smi\n") is FileKind.SHELL
    assert kind_of("train", b"#!/usr/bin/python3\n# bash\n") is None
    assert kind_of("train", b"\x7fELF") is None


def test_makefiles() -> None:
    assert is_makefile("a/Makefile") and is_makefile("a.mk") and not is_makefile("a/make.sh")
