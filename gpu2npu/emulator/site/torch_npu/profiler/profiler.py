"""`torch_npu.profiler.profile`: records the operators that run on the emulated NPU, step by step."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any

from . import files
from .chrome_trace import trace_events
from .experimental_config import ProfilerLevel, _ExperimentalConfig
from .observing import Observer
from .recording import OperatorEvent, Recording
from .scheduler import ProfilerAction

__all__ = ["ProfilerActivity", "profile", "supported_activities", "tensorboard_trace_handler"]


class ProfilerActivity(IntEnum):
    """The devices on which work is recorded."""

    CPU = 0
    NPU = 1


def supported_activities() -> set[ProfilerActivity]:
    """Both activities."""
    return set(ProfilerActivity)


Handler = Callable[["_KinetoProfile"], Any]


class _KinetoProfile:
    """Records between `start` and `stop`."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        self.config = experimental_config or _ExperimentalConfig()
        self.detailed = self.config.options["_profiler_level"] in (ProfilerLevel.Level1, ProfilerLevel.Level2)
        self.with_shapes = record_shapes or self.detailed
        self.profile_memory = profile_memory
        self.with_stack = with_stack or with_modules
        self.with_flops = with_flops
        self.step_num = 0
        self.scheduled = False
        self.metadata: dict[str, Any] = {}
        self._recording = Recording()
        self._observer: Observer | None = None
        self._started = 0
        self._trace_id = custom_trace_id_callback

    def start(self) -> None:
        """Begin to record."""
        if self._observer is None:
            self._recording = Recording()
            self._observer = Observer(
                self._recording,
                lambda: self.step_num if self.scheduled else None,
                shapes=self.with_shapes,
                blocks=self.profile_memory,
                stacks=self.with_stack,
                flops=self.with_flops,
                host=ProfilerActivity.CPU in self.activities,
            )
            self._observer.start()
            self._started = time.time_ns()

    def stop(self) -> None:
        """Stop recording; what was recorded stays until the next start."""
        if self._observer is not None:
            self._recording.window = (self._started, time.time_ns())
            observer, self._observer = self._observer, None
            observer.stop()

    def events(self) -> list[OperatorEvent]:
        """The operators that were recorded."""
        return list(self._recording.operators)

    def export_chrome_trace(self, output_path: str) -> None:
        """Write the recording as a chrome trace."""
        Path(output_path).write_text(json.dumps(trace_events(self._recording)), encoding="utf-8")

    def export_stacks(self, output_path: str, metric: str = "self_cpu_time_total") -> None:
        """Write each call stack with its own time in microseconds, for tools that draw flame graphs.

        Raises:
            RuntimeError: Stacks were not recorded (`with_stack=True`).
        """
        if not self.with_stack:
            raise RuntimeError("Function export_stacks() requires with_stack=True.")
        times: dict[str, int] = {}
        for event in self._recording.host:
            if event.stack:
                stack = ";".join([*reversed(event.stack), event.name]).replace(" ", "_")
                times[stack] = times.get(stack, 0) + (event.end - event.start) // 1000
        lines = (f"{stack} {time}" for stack, time in times.items() if time)
        Path(output_path).write_text("\n".join(lines), encoding="utf-8")

    def export_memory_timeline(self, output_path: str, device: str | None = None) -> None:
        """Not done: a timeline of memory."""
        raise NotImplementedError(
            "torch_npu.profiler.profile.export_memory_timeline: the emulator has no such timeline"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to profiler_metadata.json."""
        if not isinstance(key, str) or not isinstance(value, str):
            warnings.warn("The key and value of metadata must be strings; they are ignored.", stacklevel=2)
            return
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to profiler_metadata.json."""
        try:
            self.metadata[key] = json.loads(value)
        except (TypeError, ValueError):
            warnings.warn(f"The value of metadata {key!r} is not JSON; it is ignored.", stacklevel=2)

    def get_trace_id(self) -> str:
        """Return the number that the callback for trace numbers gives, "" without one."""
        return self._trace_id() if self._trace_id else ""

    def write(self, folder: str | None, worker: str | None) -> Path:
        """Write all files of the recording; the folder that holds them."""
        path = files.new_folder(folder, worker)
        info = {
            "config": {
                "common_config": {
                    "activities": [f"ProfilerActivity.{ProfilerActivity(each).name}" for each in self.activities],
                    "record_shapes": self.with_shapes,
                    "profile_memory": self.profile_memory,
                    "with_stack": self.with_stack,
                    "with_flops": self.with_flops,
                },
                "experimental_config": self.config.options,
            },
            "start_info": {"syscnt_enable": False, "collectionTimeBegin": self._started},
            "end_info": {"collectionTimeEnd": time.time_ns()},
            "emulated": True,
            "metadata": self.metadata,
        }
        files.write_all(
            path,
            self._recording,
            info,
            self.config.options["_export_type"],
            shapes=self.with_shapes,
            counters=self.detailed,
            memory=self.profile_memory,
        )
        return path


def tensorboard_trace_handler(
    dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True, async_mode: bool = False
) -> Handler:
    """For `on_trace_ready`: write each recording to `<worker>_<process>_<time>_ascend_pt` in a folder."""

    def handle(prof: _KinetoProfile) -> None:
        prof.write(dir_name, worker_name)

    return handle


class profile(_KinetoProfile):  # noqa: N801
    """Records within a block, or in the steps a schedule names; `on_trace_ready` is called after each recording."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Handler | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: Any = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        use_cuda: bool | None = None,
    ) -> None:
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            custom_trace_id_callback=custom_trace_id_callback,
        )
        if use_cuda is not None:
            warnings.warn("This is npu environment, use_cuda is invalid", stacklevel=2)
        self.schedule = schedule or (lambda _: ProfilerAction.RECORD)
        self.scheduled = schedule is not None
        self.on_trace_ready = on_trace_ready
        self._step_began = 0

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self.step_num = 0
        if self._records(self.schedule(0)):
            super().start()
        self._step_began = time.time_ns()

    def stop(self) -> None:
        """End the step; hand over what is being recorded."""
        if self._observer is not None:
            self._end_step()
            self._hand_over()

    def step(self) -> None:
        """The next step begins."""
        action, following = self.schedule(self.step_num), self.schedule(self.step_num + 1)
        if self._observer is not None:
            self.scheduled = True
            self._end_step()
            if action is ProfilerAction.RECORD_AND_SAVE or not self._records(following):
                self._hand_over()
        self.step_num += 1
        if self._observer is None and self._records(following):
            super().start()
        self._step_began = time.time_ns()

    @staticmethod
    def _records(action: ProfilerAction) -> bool:
        return action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _end_step(self) -> None:
        if self.scheduled:
            self._recording.steps.append((self.step_num, self._step_began, time.time_ns()))

    def _hand_over(self) -> None:
        super().stop()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)
