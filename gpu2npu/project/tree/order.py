"""The order in which the files of a project are worked on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpu2npu.python.project.project import Project

# Only the order depends on what these find, so that a word in a string or a statement of an odd form does no harm.
_FROM = re.compile(rb"\n[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)")
_IMPORT = re.compile(rb"\n[ \t]*import[ \t]+([.\w]+)")
_NAME = re.compile(rb"\w+")


def imports_first(sources: Mapping[str, bytes]) -> list[str]:
    """The paths of files in an order in which a Python file stands behind those that it imports, as far as that can be:
    what it asks about them is known then, and they are not parsed for it. Other files stand before them, large ones
    first."""
    others = [path for path in sources if not path.endswith(".py")]
    order = dict.fromkeys(sorted(others, key=lambda path: (-len(sources[path]), path)))
    project = Project(frozenset(path for path in sources if path.endswith(".py")))
    entered: set[str] = set()
    for path in sorted(project.files):
        pending = [path]
        while pending:
            latest = pending[-1]
            if latest in entered:  # and so is what it imports
                order.setdefault(pending.pop())
            else:
                entered.add(latest)
                pending += (other for other in _imported(latest, sources[latest], project) if other not in entered)
    return list(order)


def _imported(path: str, source: bytes, project: Project) -> Iterator[str]:
    """The files of the project that a file seems to import."""
    modules = [found.decode() for found in _IMPORT.findall(b"\n" + source)]
    for home, names in _FROM.findall(b"\n" + source):
        module = home.decode()
        found = project.module_path(module, path)
        if found is not None and not found.endswith("__init__.py"):
            modules.append(module)
        elif found is not None or not module.strip("."):
            dot = "" if module.endswith(".") else "."
            modules += (module, *(f"{module}{dot}{name.decode()}" for name in _NAME.findall(names)))
    for module in modules:
        other = project.module_path(module, path)
        if other is not None and other != path:
            yield other
