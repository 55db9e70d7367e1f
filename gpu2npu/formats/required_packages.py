"""Requirements: what pip and conda are to install, in whatever file it is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gpu2npu.distributions import normalised
from gpu2npu.engine.knowledge import Knowledge
from gpu2npu.engine.marks import Mark
from gpu2npu.formats.marks import of_environment
from gpu2npu.records import Bounds, FindingKind, Found, Severity
from gpu2npu.rulebook.in_code import COMPANION, CUDA_BUILD, TORCH_NPU
from gpu2npu.support.cann import CPU_INDEX, pythons_of
from gpu2npu.support.releases import RELEASES, known_version, release_of, wheel_version

# No rule of a rule file: what matches is every torch, and what it becomes depends on the version asked for.
ADDED = (
    "PyTorch reaches the NPU through torch-npu, whose version belongs to that of torch."
    f" It takes PyTorch's build for the CPU: pip install --extra-index-url {CPU_INDEX}."
)

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<extras>\[[^\]]*\])?\s*"
    r"(?P<specifier>\(?\s*(?:[=<>!~]=?=?\s*[^\s;#,'\"()=<>!~]+\s*,?\s*)*\)?)(?P<marker>\s*;[^#\n]*?)?\s*(?:#|$|--|\\)"
)
FOR_CUDA = "It is built for CUDA: take its build for the CPU, or one for Ascend if there is one."
# A name or an extra by which a package is built for CUDA: dgl-cu118, tensorflow-gpu, jax[cuda12].
BUILT_FOR_CUDA = re.compile(
    r"[^\[]*-(?:cu\d{2,3}|cuda\d*x?|gpu)|[^\[]*\[(?:[^\]]*,)?\s*(?:cu\d{2,3}|cuda\w*)\s*[\],].*"
)
# What is installed from a file or a repository, by the name that these have.
_WHEEL = re.compile(r"(?:[^\s@]*/)?(?P<name>[A-Za-z0-9][\w.]*)-(?P<version>\d[\w.]*)[^/\s]*\.whl(?=$|[\s#?;])")
_REPOSITORY = re.compile(r"git\+\S*?(?:/(?P<name>[A-Za-z0-9][\w.-]*?)(?:\.git)?/?(?:@[^\s/]*)?(?=$|[\s#?;]))")
_CLAUSE = re.compile(r"(?P<operator>===|==|>=|<=|!=|~=|=|>|<|\^|~)\s*(?P<version>[^\s,;()|]+)")
_TORCH = frozenset({"torch", "pytorch"})
_OF_PYTHON = re.compile(r"python_version\s*(?P<operator>[=<>!~]=|<|>)\s*['\"](?P<version>[\d.*]+)['\"]")
# Markers of machines that have no NPU: `; sys_platform == "darwin"`.
_NEVER_LINUX = re.compile(
    r"(?!.*\sor\s).*[;(\s](sys_platform|platform_system|os_name)\s*"
    r"(==\s*['\"](darwin|win32|windows|nt)['\"]|!=\s*['\"](linux|posix)['\"]).*",
    re.IGNORECASE | re.DOTALL,
)
# Words in the names of groups and files of requirements for machines without NPUs: `intel_macos`, `cpu.txt`.
_OTHERS = re.compile(
    r"(?:.*[-_])?(?:cpu(?!.*(?:gpu|cuda))|mac|macos|osx|darwin|windows|mps|rocm|xpu|tpu)\d*(?:[-_].*)?", re.IGNORECASE
)
_INSTALLERS = frozenset({"install", "add", "create"})
# Options of pip and conda that take the next word.
_TAKING = frozenset(
    {"-r", "-c", "-i", "-f", "-e", "-t", "-n", "-p", "--requirement", "--constraint", "--index-url",
     "--extra-index-url", "--find-links", "--editable", "--target", "--name", "--prefix", "--channel", "--platform",
     "--python-version", "--abi", "--trusted-host", "--root", "--src", "--cache-dir", "--index", "--torch-backend"}
)  # fmt: skip


class Required(Struct, frozen=True):
    """One requirement of a file: where it starts, its normalised name, and its marker as it is written."""

    start: int
    end: int
    name: str
    specifier: str
    marker: str
    extras: str = ""

    @property
    def place(self) -> Bounds:
        return self.start, self.end


def requirement(text: str, start: int = 0) -> Required | None:
    """The requirement in `text`, which is at `start`; None where it is none, but an option, a path or a URL."""
    editable = re.match(r"\s*(?:-e|--editable)(?:\s+|=)(?=git\+)", text)
    if editable is not None:
        start, text = start + editable.end(), text[editable.end() :]
    stripped = text.strip()
    at = start + len(text) - len(text.lstrip())
    file = _WHEEL.match(stripped) or _REPOSITORY.match(stripped)
    if file is not None:
        version = file.groupdict().get("version")
        return Required(at, at + file.end(), normalised(file["name"]), f"=={version}" if version else "", "")
    match = _REQUIREMENT.match(stripped)
    if match is None:
        url = re.match(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*@\s*[^\s;]+(?P<marker>\s*;.*)?", stripped)
        return Required(at, at + url.end("name"), normalised(url["name"]), "", url["marker"] or "") if url else None
    specifier = match["specifier"].strip().rstrip(",")
    name, marker = normalised(match["name"]), (match["marker"] or "").rstrip()
    return Required(at, at + match.end("name"), name, specifier, marker, match["extras"] or "")


def requirement_marks(required: Required, knowledge: Knowledge) -> list[Mark]:
    """Return the marks for one requirement."""
    name, wanted = required.name, torch_of(knowledge.version)
    rule = knowledge.distributions.get(required.name)
    if rule is not None and not rule.then.keep:
        report = rule.then.report
        kind, message = (report.kind, report.message) if report else (FindingKind.REVIEW, rule.why)
        return [of_environment(required.place, rule.id, kind, name, message)]
    if name in _TORCH and knowledge.uses_device and not _has_wheel(required, knowledge):
        wheel, pythons = _torch_npu(knowledge), ", ".join(pythons_of(_torch_npu(knowledge)))
        message = f"PyPI has no wheel of torch-npu {wheel} for the Python of this line, but for {pythons}."
        return [of_environment(required.place, TORCH_NPU, FindingKind.REVIEW, name, message)]
    if name in _TORCH and not allows(required.specifier, wanted):
        message = f"torch-npu needs PyTorch {wanted}, which this excludes: write {name}=={wanted}."
        return [_pin(required, TORCH_NPU, message)]
    paired = companion(name, wanted)
    if paired is not None and not allows(required.specifier, paired):
        message = f"It is for another PyTorch: write {name}=={paired}, which is for {wanted}."
        return [_pin(required, COMPANION, message)]
    if rule is None and BUILT_FOR_CUDA.fullmatch(name + required.extras):
        return [of_environment(required.place, CUDA_BUILD, FindingKind.UNSUPPORTED, name, FOR_CUDA)]
    return []


def _pin(required: Required, rule: str, message: str) -> Found:
    """The finding about a pin that cannot be met beside torch-npu; the message shows the right one."""
    written = f"{required.name}{required.specifier}"
    return Found(required.place, rule, FindingKind.REVIEW, written, message, Severity.CHANGE)


def is_for_others(name: str) -> bool:
    """Return whether a group or file of requirements of such a name is for machines that have no NPU."""
    return _OTHERS.fullmatch(name) is not None


def npu_requirements(found: Iterable[Required], knowledge: Knowledge) -> tuple[list[Required], str]:
    """The requirements of torch each of which one of torch-npu is to follow with the same marker, and the text of that
    one without a marker. There are none where the project needs none, or has one already."""
    requirements = list(found)
    text = f"torch-npu=={_torch_npu(knowledge)}"
    if not knowledge.uses_device or not _is_on_pypi(knowledge.version):
        return [], text
    if any(one.name == "torch-npu" for one in requirements):
        return [], text
    torch = torch_of(knowledge.version)
    by_marker: dict[str, Required] = {}
    for one in requirements:
        fits = one.name in _TORCH and allows(one.specifier, torch) and _has_wheel(one, knowledge)
        if fits and not _NEVER_LINUX.fullmatch(one.marker):
            by_marker.setdefault("".join(one.marker.split()), one)
    return [by_marker[""]] if "" in by_marker else list(by_marker.values()), text


def npu_findings(found: Iterable[Required], knowledge: Knowledge) -> Iterator[Found]:
    """Yield the findings that torch-npu is to be required beside torch, for places that are not edited."""
    wanted, text = npu_requirements(found, knowledge)
    for torch in wanted:
        message = f"{ADDED} Require {text}{torch.marker} too."
        yield of_environment(torch.place, TORCH_NPU, FindingKind.REVIEW, torch.name, message)


def _torch_npu(knowledge: Knowledge) -> str:
    return wheel_version(known_version(knowledge.version) or knowledge.version)


def _has_wheel(required: Required, knowledge: Knowledge) -> bool:
    """Return whether torch-npu has a wheel for a Python that a requirement's marker allows; true for a marker that this
    does not read, and where PyPI has no torch-npu at all."""
    clauses = list(_OF_PYTHON.finditer(required.marker))
    pythons = pythons_of(_torch_npu(knowledge))
    if not clauses or not pythons or re.search(r"\b(?:or|not)\b", required.marker):
        return True
    return any(all(_allows(each["operator"], each["version"], _numbers(one)) for each in clauses) for one in pythons)


def missing_release(found: Iterable[Required], knowledge: Knowledge) -> list[Mark]:
    """The finding that PyPI has no torch-npu for the version, so that none can be required."""
    if _is_on_pypi(knowledge.version) or not knowledge.uses_device:
        return []
    message = f"PyPI has no torch-npu for PyTorch {knowledge.version}: install the wheel of Ascend's own release."
    return [
        of_environment(one.place, TORCH_NPU, FindingKind.REVIEW, one.name, message)
        for one in found
        if one.name in _TORCH
    ]


def torch_of(version: str) -> str:
    """The PyTorch that torch-npu for `version` is made for: the first three numbers of its own version."""
    return re.split(r"\.post|rc", known_version(version) or version)[0]


def companion(name: str, torch: str) -> str | None:
    """The version of torchvision or torchaudio that belongs to a version of PyTorch 2; None for other packages.

    torchvision's minor number is 15 more (https://github.com/pytorch/vision#installation); torchaudio had that of
    PyTorch up to its last release, 2.11.
    """
    numbers = _numbers(torch)
    if len(numbers) < 3 or numbers[0] != 2:
        return None
    if name == "torchvision":
        return f"0.{numbers[1] + 15}.{numbers[2]}"
    return torch if name == "torchaudio" and numbers[1] <= 11 else None


def _is_on_pypi(version: str) -> bool:
    return release_of(version) in RELEASES


def allows(specifier: str, version: str) -> bool:
    """Return whether a specifier (PEP 440, conda's `=2.1`, Poetry's `^2.1 || ~1.13`) allows a release such as 2.1.0."""
    wanted = _numbers(version)
    return any(
        all(_allows(clause["operator"], clause["version"], wanted) for clause in _CLAUSE.finditer(alternative))
        for alternative in specifier.split("||")
    )


def _allows(operator: str, written: str, wanted: tuple[int, ...]) -> bool:
    numbers = _numbers(written.partition("+")[0])
    if not numbers:
        return True
    same = wanted[: len(numbers)] == numbers
    if operator == "=" or (operator in ("==", "!=") and ".*" in written):
        return same if operator != "!=" else not same
    padded = numbers + (0,) * (len(wanted) - len(numbers))
    if operator in ("==", "==="):
        return padded == wanted
    if operator == "!=":
        return padded != wanted
    if operator in ("~=", "^", "~"):
        return padded <= wanted and wanted[: (fixed := _fixed(operator, numbers))] == numbers[:fixed]
    return {">=": wanted >= padded, "<=": wanted <= padded, ">": wanted > padded, "<": wanted < padded}[operator]


def _fixed(operator: str, numbers: tuple[int, ...]) -> int:
    """Return how many of the first numbers of a version may not change: with `^` all up to the first that is not 0."""
    if operator == "~=":
        return len(numbers) - 1
    if operator == "~":
        return min(len(numbers), 2)
    return next((place for place, number in enumerate(numbers, start=1) if number), len(numbers))


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match is not None else ()


def installed(program: str, arguments: Sequence[tuple[int, str]], knowledge: Knowledge) -> Iterator[Mark]:
    """Yield the marks for the packages that a command installs; `arguments` are places and values of its words."""
    words = [value for _, value in arguments]
    if not program.startswith(("pip", "uv", "conda", "mamba", "micromamba")) and words[:2] != ["-m", "pip"]:
        return
    verb = next((index for index, word in enumerate(words) if word in _INSTALLERS), None)
    if verb is None:
        return
    taken = False
    found = []
    for start, value in arguments[verb + 1 :]:
        passed = value.startswith("-") or (taken and not value.startswith("git+"))
        required = None if passed else requirement(value, start)
        taken = value in _TAKING
        if required is not None:
            found.append(required)
            yield from requirement_marks(required, knowledge)
    yield from npu_findings(found, knowledge)
    yield from missing_release(found, knowledge)
