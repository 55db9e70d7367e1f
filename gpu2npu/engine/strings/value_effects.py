"""Effects of calls of Python's own functions, of argparse and of what is like it on the values that they are given."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpu2npu.python.flow.value_files import CallEffect
from gpu2npu.python.flow.values import Values
from gpu2npu.python.project.project import Project

# `effects` has the last names of the calls with each effect, `with_keywords` those that hand on these keywords beside
# the first argument. `readers` read a file of data as lists, dicts and texts; one that begins with a dot is a method of
# any object that the project does not define. `harmless` calls do nothing that depends on a device, `others` take
# a text for a file, a module, a variable of the environment or a program.
_TABLE = msgspec.json.decode(Path(__file__).with_name("call_effects.json").read_bytes())
EFFECTS = {name: CallEffect(kind) for kind, names in _TABLE["effects"].items() for name in names} | {
    name: CallEffect(kind, tuple(keywords)) for name, (kind, keywords) in _TABLE["with_keywords"].items()
}
READERS, HARMLESS, OTHERS = (frozenset(_TABLE[each]) for each in ("readers", "harmless", "others"))
_MOST_PLACES, _MOST_ANSWERS = 150_000, 1_000_000  # about 110 and 500 MB


def forget_values(project: Project) -> None:
    """Free what was read of a project's values once that is much, between two files: the edges of its files, which are
    read again where a question leads to them, and the answers where these too are many."""
    values = project.values
    if values is not None and values.answers > _MOST_ANSWERS:
        project.values = None
    elif values is not None and values.size > _MOST_PLACES:
        values.free()


def values_of(project: Project) -> Values:
    """The solver for the values of a project."""
    if project.values is None:
        project.values = Values(project, EFFECTS, READERS)
    return project.values
