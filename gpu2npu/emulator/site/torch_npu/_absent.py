"""Public modules of torch_npu without a file here: they import, and their names work or say that they do not.

`absent_modules.json` has the names: the `__all__`, or the public functions and classes, of the modules in the wheels
2.1.0.post13, 2.5.1, 2.7.1.post2, 2.13.0 and 2.14.0. A name that the emulator keeps in a package around the module, as
`torch_npu.optim` keeps `NpuFusedAdamW`, is that one.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_TORCHAIR = "torch_npu.dynamo.torchair"
NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("absent_modules.json").read_text())
_PACKAGES = {module.rsplit(".", depth)[0] for module in NAMES for depth in range(1, module.count(".") + 1)}


def install() -> None:
    """Let the import system find the modules, after all those that have a file."""
    sys.meta_path.append(_Finder())


def publish(namespace: dict[str, Any], *others: str) -> None:
    """Give a module that imports its public names an `__all__`: all but modules and private names, and the others."""
    found = [name for name, value in namespace.items() if name[0] != "_" and not isinstance(value, ModuleType)]
    namespace["__all__"] = [*found, *others]


def of_npu(module: str, name: str) -> object:
    """A public name of `torch.npu`, which torch_npu keeps in a module below it. Raises AttributeError for another."""
    npu = vars(importlib.import_module("torch_npu.npu"))
    if name.startswith("_") or name not in npu:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return npu[name]


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A spec for a module of the table, also under the name `torchair`."""
        module = f"{_TORCHAIR}{name.removeprefix('torchair')}" if name.startswith("torchair.") else name
        if module not in NAMES and module not in _PACKAGES:
            return None
        return ModuleSpec(name, _Loader(), is_package=module in _PACKAGES)


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module itself for its name under `torchair`, otherwise a new one."""
        if spec.name.startswith("torchair."):
            return importlib.import_module(f"{_TORCHAIR}{spec.name.removeprefix('torchair')}")
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give a new module the names it has in torch_npu."""
        if not hasattr(module, "__all__"):
            module.__dict__["__all__"] = NAMES.get(module.__name__, [])
            module.__dict__["__getattr__"] = functools.partial(attribute, module.__name__)


def attribute(module: str, name: str) -> Any:
    """A name of a module without a file: found in a package around it, or a function or class that refuses.

    Raises:
        AttributeError: torch_npu has no such public name there.
    """
    if name not in NAMES.get(module, ()):
        raise AttributeError(f"module {module!r} of the emulated torch_npu has no attribute {name!r}")
    packages = [module.rsplit(".", depth)[0] for depth in range(1, module.count("."))]
    if name.startswith("npu_"):
        packages.append("torch_npu")
    for package in packages:
        found = getattr(importlib.import_module(package), name, None)
        if found is not None:
            return found
    from .npu._unsupported import unsupported  # which needs torch

    return refusing_class(f"{module}.{name}") if name[0].isupper() else unsupported(f"{module}.{name}")


@functools.cache
def refusing_class(name: str) -> type:
    """A class that cannot be made, so that `isinstance` with it works and is False."""

    from .npu._unsupported import unsupported

    def refuse(self: object, *args: Any, **kwargs: Any) -> None:
        unsupported(name)()

    return type(name.rpartition(".")[2], (), {"__init__": refuse, "__doc__": f"Not done: {name}."})
