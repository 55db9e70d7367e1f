"""A string is a device where the parameter of the project's own function that it is for is one."""

from __future__ import annotations

import pytest


def test_a_parameter_in_another_file_tells(project) -> None:
    files = {
        "lib/place.py": "def put(x, device): ...\nclass Holder:\n    def __init__(self, mode): ...\n",
        "run.py": "from lib.place import put, Holder\nput(x, 'cuda')\nHolder('cuda')\n",
    }
    result = project(files)["run.py"]
    assert result.content == b"from lib.place import put, Holder\nput(x, 'npu')\nHolder('cuda')\n"
    assert [finding.span.start_line for finding in result.findings] == [3]


_METHODS = """class Kit:
    @staticmethod
    def load(path, map_location=None): ...
    @classmethod
    def make(cls, name, device): ...
    def move(self, device, name): ...
    def all(self):
        self.move({})
        Kit.load({})
        Kit.make({})
        Kit.move({})
"""


def test_the_parameters_of_the_projects_own_methods_decide(migrate) -> None:
    before = ["'cuda', 'cuda'", "'cuda', 'cuda'", "'cuda', 'cuda'", "kit, 'cuda'"]
    after = ["'npu', 'cuda'", "'cuda', 'npu'", "'cuda', 'npu'", "kit, 'npu'"]
    assert migrate(_METHODS.format(*before)) == _METHODS.format(*after)


RUNNER = "class Runner:\n    def start(self, where: Tuple[int, str], device='cpu', *, steps=1): ...\n"


@pytest.mark.parametrize(
    ("other", "call", "edited"),
    [
        ("", "runner.start(1, 'cuda')", True),
        ("", "self.runner.start(1, 'cuda', steps=2)", True),
        ("", "runner.start('cuda', 1)", False),
        ("", "runner.start(1, 2, 3, 'cuda')", False),
        ("", "runner.start(*where, 'cuda')", False),
        ("", "runner.stop(1, 'cuda')", False),
        ("", "lib.start(1, 'cuda')", False),
        ("class Other:\n    def start(self, n, kind): ...\n", "runner.start(1, 'cuda')", False),
    ],
)
def test_the_parameter_of_a_method_that_the_project_defines(project, other: str, call: str, edited: bool) -> None:
    files = {"runner.py": RUNNER, "other.py": other, "train.py": f"import torch, lib\n{call}\n"}
    result = project(files)["train.py"]
    assert bool(result.changes) is edited
    assert [finding.rule for finding in result.findings] == ([] if edited else ["device-string"])


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("def put(x, device, *more): ...\nput(1, 'cuda', *others)", True),
        ("def put(x, device): ...\nput(1, *['cuda'])", False),
        ("def put(x, device): ...\nput(1, mode='cuda')", False),
        ("def put(): ...\nput('cuda')", False),
        ("class Net: ...\nNet('cuda')", False),
        ("class Net:\n    __init__ = make\nNet('cuda')", False),
        ("class Net:\n    __init__ = make\n    def __init__(self, device): ...\nNet('cuda')", True),
    ],
)
def test_arguments_without_a_parameter_of_their_own_are_reported(migrate_with, text: str, edited: bool) -> None:
    result = migrate_with([], text)
    assert (result.content or text.encode()).decode() == (text.replace("cuda", "npu") if edited else text)
    assert [finding.rule for finding in result.findings] == ([] if edited else ["device-string"])
