"""The facts about the project around a file that the engine uses, collected once before any file is migrated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gpu2npu.engine.torch_library import TORCH
from gpu2npu.python.facts.reading import read_facts
from gpu2npu.python.facts.record import FileFacts, OriginKind
from gpu2npu.python.facts.values import DataValues
from gpu2npu.python.meaning.object_kinds import ObjectKinds
from gpu2npu.python.project.project import Project, no_file
from gpu2npu.python.project.search_path import search_folders
from gpu2npu.python.text.source import words
from gpu2npu.rulebook.rule import Rulebook
from gpu2npu.support.releases import autoloads

Words = frozenset[bytes]


@dataclass(frozen=True)
class ProjectContext:
    """Facts shared by every file of one migration; picklable, so that workers can have it.

    `version` is the source's PyTorch version. `files` are the project's Python files, relative, with forward slashes,
    and `read` gives the bytes of one. `root` is where they are on disk (None: nowhere).
    `project_members` has, for members that rules match, such as `cuda`, the only files where some class may define it.
    `other_names` are names that files of the project give to functions and classes of rules, `from lib import norm as
    our_norm`: each with the last names that it stands for.
    `folders` are those that files of the project put on sys.path (see python/project/search_path.py).
    `uses_device` means that the project's code may run on a device, so that it needs torch-npu beside torch.
    `has_plugin` means that torch loads torch_npu by itself, or that the migrated code imports it somewhere.
    `imported` are those modules that rules ask of a project and that some file imports; None where no file is known.
    `facts` are those of the files, encoded, where several processes need them. `writes` means that somebody reads the
    new text of files; without it LibCST is not loaded. `data` are the values of files that programs may read, such as
    JSON. `project` is the model of these files in this process.
    """

    version: str = "2.1.0"
    files: frozenset[str] = frozenset()
    read: Callable[[str], bytes] = no_file
    root: Path | None = None
    project_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    other_names: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    uses_device: bool = True
    has_plugin: bool = True
    imported: frozenset[str] | None = None
    facts: Mapping[str, bytes] = field(default_factory=dict)
    writes: bool = True
    data: Mapping[str, DataValues] = field(default_factory=dict)
    project: Project = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        project = Project(
            self.files, self.read, self.root, TORCH, folders=self.folders, given=self.facts, data=self.data
        )
        object.__setattr__(self, "project", project)

    def has_other_name(self, source: bytes) -> bool:
        """Return whether the bytes of a file have another name of a function or class of a rule."""
        return bool(self.other_names) and not self.other_names.keys().isdisjoint(words(source))

    def has_own_class(self, path: str, member: str, read: bool, asker: str) -> bool:
        """Return whether some class of another file that is not a Module or Tensor defines a member itself."""

        def ask() -> bool:
            names = self.project.names(path)
            return names is not None and ObjectKinds(names).has_own_class(member, read)

        self.project.consult(asker, path)
        return bool(self.project.cached(("own class", path, member, read), ask))


def scan_project(
    files: Mapping[str, bytes],
    rulebook: Rulebook,
    version: str,
    read: Callable[[str], bytes] = no_file,
    root: Path | None = None,
    facts: Mapping[str, bytes] | None = None,
    writes: bool = True,
) -> ProjectContext:
    """Gather the context from the project's Python files: their facts, and a few searches of their bytes."""
    matches = [rule.match for rule in rulebook.rules]
    methods, attributes = (
        frozenset(match.index.encode() for match in matches if match.key == key) for key in ("method", "attribute")
    )
    callees = frozenset(leaf.encode() for match in matches for leaf in match.callee_leaves)
    wanted = methods | attributes | callees
    spelled = {path: wanted.intersection(words(source)) for path, source in files.items()}
    return ProjectContext(
        version=version,
        files=frozenset(files),
        read=read,
        root=root,
        project_members=_project_members(methods, attributes, files, spelled),
        other_names=_other_names(callees, files, spelled),
        folders=search_folders(files),
        uses_device=may_use_device(files, root),
        has_plugin=may_have_plugin(files, version),
        imported=project_imports(rulebook, files),
        facts=facts or {},
        writes=writes,
    )


# What a file that gives a name another one has: `norm as`, or the name at the end of a statement such as `ours = norm`.
_GAP = rb"(?:\s|\\|#[^\r\n]*[\r\n])*"
_RENAMED = rb"%b(?<!\w%b)(?:" + _GAP + rb"(as)\b|[ \t\f]*(?:[\r\n#;)]|\\|$))"
_ASSIGNED = re.compile(rb"(:?)=(?:[ \t\f(]|\\?\r?\n)*(?:\w+\s*\.\s*)*\Z")
_LONGEST = 300  # bytes between an equals sign and the last name of its value


def _other_names(
    leaves: Words, files: Mapping[str, bytes], spelled: Mapping[str, Words]
) -> dict[bytes, frozenset[str]]:
    """The names that modules give to what has one of the `leaves` as its last name, also one after the other."""
    found: dict[bytes, set[bytes]] = {}
    known: dict[bytes, set[bytes]] = {leaf: {leaf} for leaf in leaves}
    offered: dict[str, list[tuple[bytes, bytes]]] = {}
    while known:
        renamed: dict[bytes, set[bytes]] = {}
        for path, source in files.items():
            names = known.keys() & spelled[path]
            if not any(_may_rename(name, source) for name in names):
                continue
            if path not in offered:
                offered[path] = list(_second_names(read_facts(source, path)))
            for old, new in offered[path]:
                if old in names and new not in leaves and new not in found:
                    renamed.setdefault(new, set()).update(known[old])
        found.update(renamed)
        known = {name: set(each) for name, each in renamed.items()}
        spelled = {path: frozenset(name for name in renamed if name in source) for path, source in files.items()}
    return {name: frozenset(word.decode() for word in each) for name, each in found.items()}


def _may_rename(name: bytes, source: bytes) -> bool:
    """Return whether a file may give a name another one, judged without parsing it: not where it is an argument."""
    for match in _pattern(_RENAMED, name).finditer(source):
        if match[1] is not None:
            return True
        begin = max(0, match.start() - _LONGEST)
        equals = _ASSIGNED.search(source[begin : match.start()])
        if equals is not None:
            line = source.rfind(b"\n", 0, begin + equals.start()) + 1
            target = source[line : begin + equals.start()]
            if equals[1] or target.count(b"(") <= target.count(b")"):
                return True
    return False


def _second_names(facts: FileFacts | None) -> Iterator[tuple[bytes, bytes]]:
    """The last names of what a module imports or assigns under another name, each with that name."""
    for name, origins in facts.bound.items() if facts is not None else ():
        for origin in origins:
            old = origin.name.rpartition(".")[2]
            if origin.kind in (OriginKind.IMPORT, OriginKind.ALIAS) and old != name:
                yield old.encode(), name.encode()


def may_use_device(files: Mapping[str, bytes], root: Path | None) -> bool:
    """Return whether the code of some Python file names a device; yes where the code may be in no such file."""
    if not files or any(may_use_card(source, read_facts(source, path)) for path, source in files.items()):
        return True
    return root is not None and any(True for _ in root.rglob("*.ipynb"))


def may_have_plugin(files: Mapping[str, bytes], version: str) -> bool:
    """Return whether torch loads torch_npu by itself, or some Python file is likely to import it once it is migrated;
    yes where there is no Python file."""
    return (
        autoloads(version) or not files or any(gets_plugin(read_facts(source, path)) for path, source in files.items())
    )


def project_imports(rulebook: Rulebook, files: Mapping[str, bytes]) -> frozenset[str] | None:
    """Return the modules that rules ask of a project and that some Python file imports; None without files."""
    requested = (rule.where.project | rule.where.nearby | rule.where.without for rule in rulebook.rules)
    modules = frozenset().union(*requested)
    imported: set[str] = set()
    for path, source in files.items():
        facts = read_facts(source, path)
        for name in facts.imports if facts is not None else ():
            imported.update(name.rsplit(".", count)[0] for count in range(name.count(".") + 1))
    return modules & imported if files else None


# A pattern that begins with a word is searched for several times as fast as one that begins with \b.
_METHOD = rb"def(?<!\wdef)(?:[ \t\f]|\\\r?\n?)+%b\b"


def _project_members(
    methods: Words, attributes: Words, files: Mapping[str, bytes], spelled: Mapping[str, Words]
) -> dict[str, frozenset[str]]:
    """The files in which alone a class may define a member: those with a function of a method's name, and those that
    spell an attribute's. The model judges each on request."""
    members: dict[str, set[str]] = {}
    for path, data in files.items():
        for name in spelled[path] & (methods | attributes):
            if name in attributes or _pattern(_METHOD, name).search(data) is not None:
                members.setdefault(name.decode(), set()).add(path)
    return {member: frozenset(paths) for member, paths in members.items()}


@cache
def _pattern(template: bytes, word: bytes) -> re.Pattern[bytes]:
    """A pattern of a word. Those of a few words search a file faster than one for any word."""
    return re.compile(template.replace(b"%b", word))


_PLUGIN = "torch_npu"
_CARDS = ("cuda", "nccl")
_DEVICE = re.compile(r"cuda\b")
_CHOICE = re.compile(r"cuda|nccl|device|gpu|npu|accelerat|trainer", re.IGNORECASE)


def gets_plugin(facts: FileFacts | None) -> bool:
    """Return whether a file imports torch_npu, or is likely to once it is migrated: its code has a name of CUDA's."""
    words = (*facts.names, *facts.texts) if facts is not None else ()
    return any(word.partition(".")[0] == _PLUGIN or any(card in word for card in _CARDS) for word in words)


def may_use_card(source: bytes, facts: FileFacts | None) -> bool:
    """Return whether the code of a file has a name of a device, or of what chooses one: `Trainer(...)`; where it is not
    Python, whether its text has."""
    words = (*facts.names, *facts.texts) if facts is not None else (source.decode("ascii", "replace"),)
    return any(map(_CHOICE.search, words))


def names_device(facts: FileFacts | None) -> bool:
    """Return whether the code of a file has a string such as "cuda:0", or calls `cuda()`."""
    return facts is not None and ("cuda" in facts.called or any(map(_DEVICE.match, facts.texts)))


def imports_torch(facts: FileFacts | None) -> bool:
    """Return whether a file imports torch, or something of it."""
    return facts is not None and facts.imports_one_of(_TORCH)


_TORCH = frozenset({"torch"})
