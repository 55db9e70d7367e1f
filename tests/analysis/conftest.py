from collections.abc import Callable

import pytest

from gpu2npu.analysis.python_module import Project, PythonModule, parse_module

Parse = Callable[..., PythonModule]


@pytest.fixture
def parse() -> Parse:
    """Parses a text as `main.py` of a project with these other files."""

    def parse_text(text: str, **files: str) -> PythonModule:
        others = {f"{name.replace('__', '/')}.py": content for name, content in files.items()}
        project = Project(frozenset({"main.py", *others}), lambda path: others[path].encode())
        return parse_module(text, "main.py", project)

    return parse_text
