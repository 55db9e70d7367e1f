"""`python -m tools.wheel_facts WHEEL_DIR`: puts the facts of wheels into gpu2npu/support/data.

WHEEL_DIR holds wheels of torch_npu, and of torch for the names of torch.cuda (any platform: the Python sources are the
same). Facts of other releases stay as they are, so that the wheel of a new release is all that is needed. Fetch it:

    pip download --no-deps --only-binary=:all: --python-version 3.10 --platform manylinux_2_28_x86_64 \\
        --platform manylinux_2_17_x86_64 torch-npu==2.1.0.post17 -d WHEEL_DIR

PyYAML reads the lists of operators.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from gpu2npu.support.release_tables import CUDA_TABLE
from gpu2npu.support.releases import (
    TORCH_NPU,
    Facts,
    TorchNpu,
    facts_digest,
    facts_of,
    release_of,
    torch_npu_releases,
    version_key,
)
from tools.wheel_facts.extract import ExtractionError, extract_cuda_table, npu_facts, provenance


def changes(before: Facts, after: Facts) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The names that are new in `after`, and those that are gone, by section."""
    sections = sorted({*before, *after})
    nothing: frozenset[str] = frozenset()
    new = {each: sorted(after.get(each, nothing) - before.get(each, nothing)) for each in sections}
    gone = {each: sorted(before.get(each, nothing) - after.get(each, nothing)) for each in sections}
    return {each: names for each, names in new.items() if names}, {each: names for each, names in gone.items() if names}


def base_of(version: str, facts: dict[str, Facts]) -> str:
    """The earlier version that differs least, the nearest of several; "" for the very first."""
    before = sorted((each for each in facts if version_key(each) < version_key(version)), key=version_key, reverse=True)

    def difference(other: str) -> int:
        return sum(len(names) for part in changes(facts[other], facts[version]) for names in part.values())

    return min(before, key=difference, default="")


def read_wheels(folder: Path) -> dict[str, tuple[TorchNpu, Facts]]:
    """Each version of torch_npu whose wheel is in a folder, with its facts.

    Raises ExtractionError when a wheel is not what its name says.
    """
    found = {}
    for wheel in sorted(folder.glob("torch_npu-*.whl")):
        origin = provenance(wheel)
        facts = npu_facts(wheel)
        entry = TorchNpu(origin["version"], wheel.name, origin["sha256"], facts_digest(facts), "")
        found[entry.version] = (entry, facts)
    return found


def release_files(known: dict[str, tuple[TorchNpu, Facts]]) -> dict[str, str]:
    """The files of `data/torch_npu` by name, which hold the facts of these versions."""
    facts = {version: each for version, (_, each) in known.items()}
    contents: dict[str, list[dict[str, Any]]] = {}
    for version in sorted(facts, key=version_key):
        base = base_of(version, facts)
        new, gone = changes(facts[base] if base else {}, facts[version])
        entry = known[version][0]
        head = {"version": version, "wheel": entry.wheel, "sha256": entry.sha256, "digest": entry.digest}
        name = f"{release_of(version).removesuffix('.0')}.json"
        contents.setdefault(name, []).append({**head, "from": base, "new": new, "gone": gone})
    return {name: json.dumps({"releases": each}, indent=0) + "\n" for name, each in contents.items()}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python -m tools.wheel_facts WHEEL_DIR (a folder with torch_npu wheels)", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    torch_wheels = list(folder.glob("torch-*.whl"))
    if not torch_wheels and not list(folder.glob("torch_npu-*.whl")):
        print(f"error: {folder} holds no wheel named torch_npu-*.whl or torch-*.whl", file=sys.stderr)
        return 1
    known = {each.version: (each, facts_of(each.version)) for each in torch_npu_releases()}
    try:
        files = {TORCH_NPU / name: text for name, text in release_files(known | read_wheels(folder)).items()}
        if torch_wheels:
            files[CUDA_TABLE] = json.dumps(extract_cuda_table(torch_wheels), indent=0) + "\n"
    except (ExtractionError, zipfile.BadZipFile) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
