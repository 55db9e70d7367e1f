"""Begins a recording in every Python process of a recorded command, as soon as it has imported torch."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path


def _run_next() -> None:
    """Run the sitecustomize that this one hides."""
    here = Path(__file__).parent.resolve()
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if Path(entry).resolve() != here])
    if spec is not None and spec.loader is not None and spec.origin is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


class _TorchFinder:
    """Finds torch once, and has the recording begin when it has been imported."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):  # type: ignore[no-untyped-def]
            execute(module)
            from gpu2npu.verify.recording.begin import begin

            begin()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_run_next()
sys.meta_path.insert(0, _TorchFinder())  # type: ignore[arg-type]
