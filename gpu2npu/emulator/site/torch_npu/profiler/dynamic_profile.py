"""`torch_npu.profiler.dynamic_profile`: profiles that a file starts while the program runs.

`init(folder)` watches `profiler_config.json` in the folder and writes one where there is none. When it is saved again,
`step()` starts a profile at its `start_step` (-1: at once), for `warmup` and `active` steps. A real one reads the file
in a process of its own, every few seconds; here each step looks at it.
"""

from __future__ import annotations

import atexit
import json
import os
import warnings
from pathlib import Path
from typing import Any

from .experimental_config import _ExperimentalConfig
from .profiler import ProfilerActivity, profile, tensorboard_trace_handler
from .scheduler import Schedule

__all__ = ["init", "set_state", "start", "step"]

_AT_ONCE = -1
_FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_DEFAULT: dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "analyse": False,
    **dict.fromkeys(_FLAGS, False),
    "active": 1,
    "warmup": 0,
    "start_step": 0,
    "is_rank": False,
    "rank_list": [],
    "experimental_config": {"profiler_level": "Level0", "export_type": "text"},
    "metadata": {},
}


class _Dynamic:
    """The dynamic profile of this process."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.saved = 0
        self.current = 0
        self.left = 0
        self.profile: profile | None = None
        self.wanted: dict[str, Any] | None = None

    def init(self, folder: Path) -> None:
        if self.path is not None:
            warnings.warn("Init dynamic profiling repeatedly", stacklevel=3)
            return
        self.path = folder / "profiler_config.json"
        if not self.path.exists():
            self.path.write_text(json.dumps(_DEFAULT, indent=4), encoding="utf-8")
        self.saved = self.path.stat().st_mtime_ns
        atexit.register(self.stop)

    def step(self) -> None:
        self.current += 1
        self._look()
        if self.profile is not None:
            self.profile.step()
            self.left -= 1
            if not self.left:
                self.stop()
            return
        if self.wanted is None:
            return
        at = self.wanted["start_step"]
        if at in (_AT_ONCE, self.current):
            self._begin(self.wanted)
        elif self.current > at:
            warnings.warn(
                f"Dynamic Profiler config is not effective. The start_step={at}, current_step={self.current}",
                stacklevel=3,
            )
            self.wanted = None

    def start(self, path: Path) -> None:
        if self.profile is not None:
            warnings.warn("Profiler already started: start() while a profile is active does nothing", stacklevel=3)
            return
        config = _read(path)
        if config is not None:
            self._begin(config)

    def stop(self) -> None:
        if self.profile is not None:
            running, self.profile = self.profile, None
            running.stop()

    def _look(self) -> None:
        """Take up the file where it was saved since it was last read."""
        if self.path is None or not self.path.exists():
            return
        saved = self.path.stat().st_mtime_ns
        if saved != self.saved:
            self.saved = saved
            self.wanted = _read(self.path)

    def _begin(self, config: dict[str, Any]) -> None:
        self.wanted = None
        self.left = config["active"] + config["warmup"]
        flags: dict[str, Any] = {name: bool(config[name]) for name in _FLAGS}
        options = {name: value for name, value in config["experimental_config"].items() if value is not None}
        self.profile = profile(
            activities=[ProfilerActivity[name.upper()] for name in config["activities"]],
            schedule=Schedule(wait=0, warmup=config["warmup"], active=config["active"], repeat=1, skip_first=0),
            on_trace_ready=tensorboard_trace_handler(config["prof_dir"]),
            experimental_config=_ExperimentalConfig(**options),
            **flags,
        )
        self.profile.start()
        for name, value in config["metadata"].items():
            self.profile.add_metadata_json(str(name), json.dumps(value))


def _read(path: Path) -> dict[str, Any] | None:
    """The settings of a file over the defaults; None, with a warning, where it cannot be used or is for other ranks."""
    try:
        config = {**_DEFAULT, **json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError) as error:
        warnings.warn(f"Failed to read config from {path}: {error}", stacklevel=4)
        return None
    if config["is_rank"] and int(os.environ.get("RANK", "0")) not in config["rank_list"]:
        return None
    config["prof_dir"] = str(config["prof_dir"])
    return config


_dynamic = _Dynamic()


def init(path: str) -> None:
    """Watch `profiler_config.json` in a folder; a folder that is not there is said with a warning, and nothing runs."""
    if not Path(path).is_dir():
        warnings.warn(f"The path '{path}' is invalid, and profiler will not be enabled.", stacklevel=2)
        return
    _dynamic.init(Path(path).resolve())


def step() -> None:
    """Count a step of the program, and start or end a profile where the file says so."""
    _dynamic.step()


def start(config_path: str | None = None) -> None:
    """Start the profile of a file now; of the watched one where none is given or it is not there."""
    given = Path(config_path) if config_path else None
    if given is None or not given.is_file():
        given = _dynamic.path
    if given is None:
        warnings.warn("dynamic_profile.start needs a file, or init(path) before it", stacklevel=2)
        return
    _dynamic.start(given)


def set_state(state_step: dict[str, int]) -> None:
    """Set the number of the current step, `cur_step`, where a program goes on from a checkpoint."""
    current = state_step.get("cur_step", 0) if isinstance(state_step, dict) else None
    if not isinstance(current, int) or current < 0:
        warnings.warn("Dynamic profiler cur_step must be a non-negative integer.", stacklevel=2)
        return
    _dynamic.current = current
