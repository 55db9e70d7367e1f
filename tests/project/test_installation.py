"""Modules that a project installs, by the files that say how it is built."""

import pytest

from gpu2npu.codemods.choice import Installation
from gpu2npu.project.installation import installation

PYTHON = dict.fromkeys(
    ("lib/__init__.py", "lib/cli.py", "lib/inner/__init__.py", "tests/__init__.py", "train.py", "tools/run.py"), b""
)
BUILD = b"[build-system]\nrequires = []\n"
COMMAND = b"[project.scripts]\ntrain = 'lib.cli:main'\n"


@pytest.mark.parametrize(
    ("build_files", "expected"),
    [
        ({}, Installation()),
        ({"pyproject.toml": b"[tool.ruff]\n"}, Installation()),
        ({"pyproject.toml": b"[[broken"}, Installation()),
        ({"pyproject.toml": BUILD}, Installation(("lib",))),
        ({"pyproject.toml": BUILD + COMMAND}, Installation(("lib",), ("lib/cli.py",))),
        ({"setup.cfg": b"[metadata]\nname = lib\n"}, Installation(("lib",))),
        ({"setup.cfg": b"[flake8]\n"}, Installation()),
        ({"setup.py": b"from setuptools import setup\nsetup(name='lib')\n"}, Installation(("lib",))),
        ({"elsewhere/setup.py": b"setup()\n"}, Installation()),
    ],
)
def test_the_packages_beside_a_build_file_are_installed(build_files, expected):
    assert installation(PYTHON, build_files) == expected


def test_packages_may_lie_in_src_and_below_a_folder():
    python = dict.fromkeys(("python/src/lib/__init__.py", "python/src/lib/a.py", "lib2/__init__.py"), b"")
    assert installation(python, {"python/setup.py": b"setup()"}) == Installation(("python/src/lib",))
