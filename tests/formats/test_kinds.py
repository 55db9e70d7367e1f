import pytest

from gpu2npu.formats.kinds import Kind, is_makefile, kind_of, needs_head


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/train.py", Kind.PYTHON),
        ("run.SH", Kind.SHELL),
        ("job.slurm", Kind.SHELL),
        (".env", Kind.SHELL),
        ("GNUmakefile", Kind.SHELL),
        ("a.yml", Kind.YAML),
        ("a.jsonc", Kind.JSON),
        ("a.JSON", Kind.JSON),
        ("pyproject.toml", Kind.TOML),
        ("Pipfile", Kind.TOML),
        ("setup.cfg", Kind.INI),
        ("requirements.txt", Kind.REQUIREMENTS),
        ("requirements-gpu.txt", Kind.REQUIREMENTS),
        ("dev_requirements.in", Kind.REQUIREMENTS),
        ("requirements/train.txt", Kind.REQUIREMENTS),
        ("constraints.txt", Kind.REQUIREMENTS),
        ("docker/Dockerfile.cuda", Kind.DOCKERFILE),
        ("gpu.dockerfile", Kind.DOCKERFILE),
        ("a b.ipynb", Kind.NOTEBOOK),
        ("poetry.lock", Kind.TOML),
        ("composer.lock", None),
        ("package-lock.json", None),
        ("a.jsonl", None),
        ("a.PY", None),
        ("notes.txt", None),
        ("Dockerfiles", None),
        (".json", None),
    ],
)
def test_names(path: str, kind: Kind | None) -> None:
    assert kind_of(path) is kind


def test_first_lines() -> None:
    assert needs_head("bin/train") and not needs_head("a.b")
    assert kind_of("train", b"#!/usr/bin/env bash\nnvidia-smi\n") is Kind.SHELL
    assert kind_of("train", b"#!/usr/bin/python3\n# bash\n") is None
    assert kind_of("train", b"\x7fELF") is None


def test_makefiles() -> None:
    assert is_makefile("a/Makefile") and is_makefile("a.mk") and not is_makefile("a/make.sh")
