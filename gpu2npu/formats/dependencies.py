"""The requirements that configurations hold: pyproject.toml, setup.cfg, Pipfile, conda's environment.yml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpu2npu.distributions import normalised
from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.marks import of_environment
from gpu2npu.formats.nodes import Items, Mapping, Node, Scalar, entry
from gpu2npu.formats.required_packages import (
    ADDED,
    Required,
    is_for_others,
    missing_release,
    npu_findings,
    npu_requirements,
    requirement,
    requirement_marks,
)
from gpu2npu.python.text.templates import plain
from gpu2npu.records import Edit, FindingKind
from gpu2npu.rulebook.in_code import TORCH_NPU

# Where pyproject.toml has lists, or tables of lists, of requirements; `build-system.requires` installs no runtime.
_LISTS = (("project", "dependencies"), ("tool", "uv", "dev-dependencies"))
_TABLES_OF_LISTS = (("project", "optional-dependencies"), ("dependency-groups",), ("tool", "pdm", "dev-dependencies"))
_HATCH_LISTS = ("dependencies", "extra-dependencies")
_TABLES = (("tool", "poetry", "dependencies"), ("tool", "poetry", "dev-dependencies"), ("packages",))


def toml_dependencies(root: Node, text: str, knowledge: Knowledge) -> list[Mark]:
    """The requirements of a pyproject.toml or Pipfile."""
    extras = [each for path in _TABLES_OF_LISTS for each in _entries(entry(root, *path))]
    lists = [entry(root, *path) for path in _LISTS] + _for_npus(extras)
    environments = entry(root, "tool", "hatch", "envs")
    if isinstance(environments, Mapping):
        lists += [entry(environment, name) for _, environment in environments.entries for name in _HATCH_LISTS]
    marks = _listed(lists, text, knowledge) + _listed(_for_others(extras), text, knowledge, has_npu=False)
    tables = [entry(root, *path) for path in _TABLES]
    tables += [entry(group, "dependencies") for group in _for_npus(_entries(entry(root, "tool", "poetry", "group")))]
    for table in tables:
        if isinstance(table, Mapping):
            marks += _table_marks(table, text, knowledge)
    return marks


def setup_cfg_dependencies(root: Node, text: str, knowledge: Knowledge) -> list[Mark]:
    """The requirements of a setup.cfg."""
    groups = _entries(entry(root, "options.extras_require"))
    lists = _itemised([entry(root, "options", "install_requires"), *_for_npus(groups)])
    return _listed(lists, text, knowledge) + _listed(_itemised(_for_others(groups)), text, knowledge, has_npu=False)


def _entries(table: Node | None) -> list[tuple[Scalar, Node]]:
    return list(table.entries) if isinstance(table, Mapping) else []


def _for_npus(groups: Iterable[tuple[Scalar, Node]]) -> list[Node | None]:
    return [value for name, value in groups if not is_for_others(name.value or "")]


def _for_others(groups: Iterable[tuple[Scalar, Node]]) -> list[Node | None]:
    return [value for name, value in groups if is_for_others(name.value or "")]


def _itemised(nodes: Iterable[Node | None]) -> list[Node | None]:
    return [Items((node,)) if isinstance(node, Scalar) else node for node in nodes]


def conda_dependencies(root: Node, text: str, knowledge: Knowledge) -> list[Mark]:
    """The requirements of a conda environment: those of conda itself, and the list under pip."""
    dependencies = entry(root, "dependencies")
    if not isinstance(dependencies, Items):
        return []
    under_pip = [entry(item, "pip") for item in dependencies.items]
    pip = [node for node in under_pip if isinstance(node, Items)]
    marks = _listed(pip, text, knowledge)
    found = list(_required(_strings(dependencies)))
    for one in found:
        marks += requirement_marks(one, knowledge)
    wanted, new = npu_requirements([*found, *(one for node in pip for one in _required(_strings(node)))], knowledge)
    for torch in (one for one in wanted if one in found):
        message = f"{ADDED} Add {new} to the packages under pip."
        marks.append(of_environment(torch.place, TORCH_NPU, FindingKind.REVIEW, torch.name, message))
    return marks + missing_release(found, knowledge)


def _strings(node: Node | None) -> list[Scalar]:
    items = node.items if isinstance(node, Items) else ()
    return [item for item in items if isinstance(item, Scalar) and item.value and item.exact and item.places is None]


def _required(scalars: Iterable[Scalar]) -> Iterator[Required]:
    for scalar in scalars:
        written = re.sub(r"^[\w./-]+::", lambda match: " " * len(match[0]), scalar.value or "")  # conda's channel::name
        one = requirement(written, scalar.start)
        if one is not None:
            yield one


def _listed(lists: Iterable[Node | None], text: str, knowledge: Knowledge, has_npu: bool = True) -> list[Mark]:
    marks: list[Mark] = []
    for node in lists:
        scalars = _strings(node)
        required = list(_required(scalars))
        for one in required:
            marks += requirement_marks(one, knowledge)
        found = required if has_npu else []
        marks += missing_release(found, knowledge)
        wanted, new = npu_requirements(found, knowledge)
        for torch in wanted:
            place = next(scalar for scalar in scalars if scalar.start <= torch.start <= scalar.end)
            marks.append(_new_item(text, place, new + torch.marker))
    return marks


def _new_item(text: str, item: Scalar, new: str) -> Edit:
    """An item of its own after `item`, written as that one is: quoted or not, on a line of its own or not."""
    quote = text[item.start - 1] if text[item.start - 1 : item.start] in ("'", '"') else ""
    end = item.end + len(quote)
    line_start = text.rfind("\n", 0, item.start) + 1
    opening = text[line_start : item.start - len(quote)]
    newline = "\r\n" if "\r\n" in text else "\n"
    after = re.compile(r"[ \t]*(,?)[ \t]*(?:#[^\r\n]*)?(?=\r?\n|$)").match(text, end)
    if after is None or opening.strip() not in ("", "-"):
        if "=" in opening and not quote:  # setup.cfg: install_requires = torch
            return Edit((end, end), plain(f"{newline}    {new}"), TORCH_NPU, ADDED)
        return Edit((end, end), plain(f", {quote}{new}{quote}"), TORCH_NPU, ADDED)
    if quote and not opening.strip() and not after[1]:
        return Edit((end, end), plain(f",{newline}{opening}{quote}{new}{quote}"), TORCH_NPU, ADDED)
    return Edit((after.end(), after.end()), plain(f"{newline}{opening}{quote}{new}{quote}{after[1]}"), TORCH_NPU, ADDED)


def _table_marks(table: Mapping, text: str, knowledge: Knowledge) -> list[Mark]:
    """Requirements as keys: `torch = "^2.1"`, `torch = {version = "2.1.0"}`."""
    marks: list[Mark] = []
    found = []
    for key, value in table.entries:
        for each in value.items if isinstance(value, Items) else (value,):
            version, markers = (each if isinstance(each, Scalar) else entry(each, "version")), entry(each, "markers")
            written = (version.value or "") if isinstance(version, Scalar) else ""
            specifier = f"=={written}" if re.fullmatch(r"\d[\w.+]*", written) else written
            marker = f"; {markers.value}" if isinstance(markers, Scalar) else ""
            one = Required(key.start, key.end, normalised(key.value or ""), specifier, marker)
            found.append(one)
            marks += requirement_marks(one, knowledge)
    marks += missing_release(found, knowledge)
    wanted, new = npu_requirements(found, knowledge)
    end = text.find("\n", wanted[0].end) if wanted else -1
    if end < 0 or not any(key.start == wanted[0].start and isinstance(value, Scalar) for key, value in table.entries):
        return [*marks, *npu_findings(found, knowledge)]
    line = f'torch-npu = "{new.partition("==")[2]}"' + ("\r\n" if text[end - 1 : end] == "\r" else "\n")
    return [*marks, Edit((end + 1, end + 1), plain(line), TORCH_NPU, ADDED)]
