"""`python -m tools.api_map [releases] [apis]`: makes the files of gpu2npu.support that say what torch's APIs need.

`releases` reads one wheel of torch for each minor release, a few files of each, from PyPI, into torch_releases.json.
`apis` traces sample calls on the emulated NPU, by the torch that is installed, into torch_apis.json. Both by default.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from gpu2npu.support.releases import DATA, RELEASES
from tools.api_map import releases, wheels

RELEASES_FILE = DATA / "torch_releases.json"
APIS_FILE = DATA / "torch_apis.json"
EMULATED = Path(__file__).parents[2] / "gpu2npu" / "emulator" / "site"


def make_releases() -> dict[str, Any]:
    """Operators and public names of torch by release; see torch_releases.json in docs/api-facts.md."""
    found = wheels.listed("torch")
    made: dict[str, Any] = {"wheels": [], "changes": {}}
    kinds: dict[str, str] = {}
    names: dict[str, str] = {}
    for release in RELEASES:
        wheel = wheels.torch_wheel(found, release)
        with wheels.open_wheel(wheel) as archive:
            read = releases.operator_kinds(archive.read(releases.NATIVE_FUNCTIONS).decode("utf-8"))
            shown = dict.fromkeys(releases.public_names(archive), "yes")
        changed = releases.change(names, shown)
        made["wheels"].append({"filename": wheel.filename, "sha256": wheel.sha256})
        made["changes"][release] = {
            "operators": releases.change(kinds, read),
            "new": [name for name, there in changed.items() if there],
            "gone": [name for name, there in changed.items() if not there],
        }
        kinds, names = read, shown
    return made


def start_emulator() -> None:
    """Makes the emulated NPU, without kernels for what PyTorch composes above autograd.

    With one, autograd would call a backward operator for it (aten::linear_backward) that a real NPU never sees.
    """
    sys.path.insert(0, str(EMULATED))
    import torch
    import torch_npu  # noqa: F401

    from gpu2npu.emulator.device.dispatch import dispatch

    def is_composite(op: Any) -> bool:
        return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")

    dispatch._is_composite = is_composite


def make_apis() -> dict[str, Any]:
    """Trace what sample calls of public APIs reach; see torch_apis.json in docs/api-facts.md."""
    import torch
    import torchgen  # type: ignore[import-untyped]

    start_emulator()
    from tools.api_map.calls import all_calls
    from tools.api_map.record import Book

    torch.set_num_threads(1)
    native = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    book = Book(releases.operator_kinds(native.read_text(encoding="utf-8")))
    for call in all_calls():
        book.add(call)
    print(Counter(reason for reasons in book.refused.values() for reason in reasons).most_common(30), file=sys.stderr)
    return {"torch": torch.__version__.split("+")[0], **book.as_data()}


def main(arguments: list[str]) -> int:
    made = {"releases": (RELEASES_FILE, make_releases), "apis": (APIS_FILE, make_apis)}
    if not set(arguments) <= set(made):
        print(__doc__, file=sys.stderr)
        return 2
    for each in arguments or made:
        path, make = made[each]
        path.write_text(json.dumps(make(), indent=0, separators=(",", ":")) + "\n", encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
