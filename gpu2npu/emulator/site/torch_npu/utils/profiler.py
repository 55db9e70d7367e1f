"""torch_npu.utils.profiler: the older way to profile one step of a training script, which ends after it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

from ..profiler import ProfilerLevel, _ExperimentalConfig, profile, tensorboard_trace_handler

_KINDS = {
    "TORCH": {"enabled", "record_shapes", "with_flops", "profile_memory", "with_stack", "use_kineto", "use_cpu",
              "use_cuda", "use_npu_simple"},
    "ASCEND_PROFILER": {"activities", "schedule", "record_shapes", "profile_memory", "with_stack"},
    "CANN": {"config"},
    "GE": {"config"},
}  # fmt: skip


class _Profile:
    """Profiles the step number `start_step` between `start` and `end`, writes it to `save_path`, ends the process.

    Args:
        start_step: Which call of `start` begins the profile; they are counted from 1.
        save_path: The folder for what is written; it is made.
        profile_type: "TORCH" (a chrome trace) or "ASCEND_PROFILER" (the files of `torch_npu.profiler`), as in
            torch_npu 2.2 and newer; "CANN" and "GE" of 2.1 write the latter. Any other does nothing, as on a real NPU.

    Raises:
        ValueError: An option that the type does not have, or a folder that cannot be made.
    """

    def __init__(
        self,
        start_step: int = 10,
        save_path: str = "./npu_profiling",
        profile_type: str | None = None,
        use_npu: bool = True,
        record_shape: bool = True,
        experimental_config: Any = None,
        use_e2e_profiler: bool = True,
        **kwargs: Any,
    ) -> None:
        self.start_step, self.save_path, self.profile_type = start_step, save_path, profile_type
        self.enable = profile_type in _KINDS
        self.step_count = self.count = 0
        if profile_type is None or not self.enable:
            return
        unknown = sorted(kwargs.keys() - _KINDS[profile_type])
        if unknown:
            raise ValueError(f"Profile: {profile_type} takes no {', '.join(unknown)}")
        try:
            Path(save_path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"Profile: the folder {save_path} cannot be made ({error})") from error
        if profile_type == "TORCH":
            known = {"record_shapes", "profile_memory", "with_flops", "with_stack"}
            self.prof: Any = torch.profiler.profile(**{name: kwargs[name] for name in known & kwargs.keys()})
            return
        kwargs.pop("config", None)
        self.prof = profile(
            on_trace_ready=tensorboard_trace_handler(save_path),
            experimental_config=experimental_config or _ExperimentalConfig(profiler_level=ProfilerLevel.Level2),
            **{"record_shapes": record_shape, **kwargs},
        )

    def start(self) -> None:
        """Begin a step.

        Raises:
            RuntimeError: The step before has not ended.
        """
        if self.count:
            raise RuntimeError("start interface can only be called once")
        self.count = 1
        self.step_count += self.enable
        if self.enable and self.step_count == self.start_step:
            self.prof.__enter__()

    def end(self) -> None:
        """End a step; after the profiled one, write what was recorded and leave the process.

        Raises:
            RuntimeError: No step has begun.
            SystemExit: The profiled step has ended, which ends the script, as torch_npu does.
        """
        if not self.count:
            raise RuntimeError("start interface must be called before end")
        self.count = 0
        if not (self.enable and self.step_count == self.start_step):
            return
        self.prof.__exit__(None, None, None)
        if self.profile_type == "TORCH":
            name = f"torch_prof_{time.strftime('%Y%m%d%H%M%S')}.json"
            self.prof.export_chrome_trace(str(Path(self.save_path) / name))
        sys.exit()


_the_profile: list[_Profile] = []


def Profile(*args: Any, **kwargs: Any) -> _Profile:  # noqa: N802
    """The process's one `_Profile`: made by the first call, the same for later ones whatever they ask."""
    if not _the_profile:
        _the_profile.append(_Profile(*args, **kwargs))
    return _the_profile[0]
