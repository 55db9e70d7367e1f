"""Listens to a training program through torch's global hooks and writes what happens, in order."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.nn.modules import module as module_hooks

from gpu2npu.verify.recording import cards, checkpoints, optimizers, ports, sampling
from gpu2npu.verify.recording.clock import Clock
from gpu2npu.verify.recording.dump import Dump, frames_of
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.format import STATE_OF
from gpu2npu.verify.recording.host import on_host
from gpu2npu.verify.recording.names import RecordedNames
from gpu2npu.verify.recording.operators import Operators
from gpu2npu.verify.recording.sites import Sites
from gpu2npu.verify.recording.untrained import Averages, Copies, Untrained
from gpu2npu.verify.recording.whole import WholeTensors
from gpu2npu.verify.recording.writer import Writer


class StepsDone(SystemExit):
    """Ends the program after the last step that was asked for, as `sys.exit(0)` does."""


class _Calls(threading.local):
    """The modules that this thread is in the midst of calling, and the operators that they run."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.sites: list[int] = []  # of each call: the places in the user's code
        self.operators = Operators()
        self.keywords: dict[str, Any] = {}  # given to the module that is about to be entered
        self.evaluates = False  # whether the outermost module is recorded only by what it is given and returns
        self.within = 0  # the depth of calls within such a module


class Recorder:
    """Records what one process does."""

    def __init__(self, settings: RecordingSettings) -> None:
        self._settings = settings
        self._process = os.getpid()
        self._names = RecordedNames()
        self._untrained, self._copies, self._averages = Untrained(on_host), Copies(), Averages(on_host)
        self._sites = Sites(settings.project)
        self._writer = Writer(settings)
        self._calls = _Calls()
        self._step = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._saved: Counter[int] = Counter()  # checkpoints after each step
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = {}
        self._optimizers: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._clock = Clock()
        self._dump = Dump((settings.dump or settings.folder) / f"step{settings.steps - 1}", on_host)
        self._whole = WholeTensors(settings)
        self._depth = 0  # of recording: what is computed for a record is not recorded

    def install(self) -> None:
        """Hook into torch."""
        if not self._settings.brief:
            module: Any = torch.nn.Module
            module.__call__ = self._watching_keywords(module.__call__)
            module_hooks.register_module_forward_pre_hook(self._enter)
            module_hooks.register_module_forward_hook(self._leave, always_call=True)
            checkpoints.watch(self._checkpoint)
            self._copies.watch()
        from torch.optim import optimizer

        optimizer.register_optimizer_step_pre_hook(self._before_step)
        optimizer.register_optimizer_step_post_hook(self._after_step)
        autograd: Any = torch.autograd
        autograd.backward = self._watching_losses(autograd.backward)
        library: Any = torch
        library.compile = self._watching_compile(library.compile)
        scaler: Any = torch.amp.GradScaler
        scaler.scale = self._watching_scales(scaler.scale)
        if self._settings.gpus:
            cards.install(self._names.replicated, self._settings.shared)
        if torch.distributed.is_available():
            from gpu2npu.verify.recording.collectives import watch

            watch(self.collective)
            ports.install(self._settings.folder / "ports")
        if self._settings.shared and not self._settings.gpus:
            sampling.install()

    # Modules.

    def _watching_keywords(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Keep the keyword arguments of a call, which a global hook is not given."""

        @functools.wraps(call)
        def called(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._calls.keywords = kwargs
            return call(module, *args, **kwargs)

        return called

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        keywords, self._calls.keywords = self._calls.keywords, {}
        if self._is_foreign():
            return
        calls, stack = self._calls, self._calls.stack
        if calls.within or (calls.evaluates and any(stack)):
            calls.within += 1
            return
        if not stack:
            calls.evaluates = not torch.is_grad_enabled() and not self._settings.evaluation
            self._learn(module)
        name = self._names.of(module)
        if name and not any(stack):
            self._number_event("mode", name, float(module.training))
            if cards.is_one_of_several(module):
                self._of_rank(module, name)
        if not stack and self._untrained.holds(module):
            self._changes(self._names.state(module, is_called=True))
        site = self._sites.of_caller() if name else 0
        stack.append(name)
        self._calls.sites.append(site)
        if name:
            self._values("input", name, (inputs, keywords), site)
            if self._is_dumping():
                frames = frames_of(self._settings.project, self._sites.places[site])
                named = {key: each for key, each in keywords.items() if isinstance(each, torch.Tensor)}
                self._dump.enter(name, module, _tensors(inputs), named, frames)
        self._calls.operators.enter(name)

    def _of_rank(self, module: torch.nn.Module, name: str) -> None:
        """The card of an outermost module, and in training the buffers with which it begins, after a broadcast."""
        card = cards.card_of(module)
        if card is not None:
            self._number_event("device", name, float(card))
        if module.training:
            call, site = self._number("given buffers", name) + 1, self._sites.of_caller()
            for path, buffer in module.named_buffers():
                self._write("buffer", f"{name}.{path}", call, 0, buffer, site)

    def _learn(self, module: torch.nn.Module) -> None:
        """Record the weights of an outermost module that is new."""
        for name, tensor in self._names.learn(module):
            self._write("initial weight", name, 0, 0, tensor, self._sites.of_caller())
            self._untrained.has_changed(name, tensor)

    def _changes(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Record the weights that no optimizer trains, where they changed."""
        for name, tensor in weights:
            if self._untrained.has_changed(name, tensor):
                self._write("weight", name, self._number("weight", name), 0, tensor, self._sites.of_caller())

    def _leave(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if self._is_foreign():
            return
        calls = self._calls
        if calls.within:
            calls.within -= 1
            return
        name, site = (calls.stack.pop(), calls.sites.pop()) if calls.stack else ("", 0)
        operators = self._calls.operators.leave(name)
        if operators:
            self._writer.operators(name, operators)
        if name:
            self._values("output", name, output, site, gradients=True)
            if self._is_dumping():
                self._dump.leave(_tensors(output))

    def _values(self, kind: str, name: str, values: Any, site: int, gradients: bool = False) -> None:
        call = self._number(kind, name)
        for part, tensor in enumerate(_tensors(values)):
            self._write(kind, name, call, part, tensor, site)
            if gradients and tensor.requires_grad and torch.is_grad_enabled() and torch.is_floating_point(tensor):
                step = self._step
                tensor.register_hook(functools.partial(self._gradient, name, call, part, step))

    def _gradient(self, name: str, call: int, part: int, step: int, gradient: torch.Tensor | None) -> None:
        if gradient is not None and not self._is_foreign() and step == self._step:  # None where nothing flows back
            self._write("gradient", name, call, part, gradient, 0)

    def _is_dumping(self) -> bool:
        return self._settings.dump is not None and self._step == self._settings.steps - 1

    # Steps.

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_foreign() or self._settings.brief:
            return
        if optimizer not in self._optimizers:
            self._averages.search([each for group in optimizer.param_groups for each in group["params"]])
        label = self._label(optimizer)
        site = self._sites.of_caller()
        for group_number, group in enumerate(optimizer.param_groups):
            self._untrained.trained_by(group["params"])
            rate = group.get("lr")
            if rate is not None:
                self._number_event("rate", f"{label}.{group_number}", float(rate))
            for option, value in optimizers.options(optimizer, group):
                self._number_event("option", f"{label}.{group_number}.{option}", value)
            for number, parameter in enumerate(group["params"]):
                if parameter.grad is not None and not parameter.grad.is_sparse:
                    name = self._names.parameter(parameter) or f"{label}.{group_number}.{number}"
                    self._write("parameter gradient", name, 0, 0, parameter.grad, site)
                    if self._is_dumping():
                        self._dump.parameter_gradient(name, parameter.grad)
        for module in self._copies.choose(self._is_apart):
            self._learn(module)
            self._changes(self._names.state(module, is_called=False))
        self._changes(self._averages.tensors())

    def _is_apart(self, module: torch.nn.Module) -> bool:
        """Return whether a copy is for itself: it is not part of a model that was called, and nothing trains it."""
        return not self._untrained.trains(module) and not self._names.is_part(module)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_foreign():
            return
        if not self._settings.brief:
            self._record_weights(optimizer)
        if self._is_dumping():
            self._dump.write()
        self._writer.step(self._step, self._label(optimizer), self._clock.cost())
        self._step += 1
        self._counts.clear()
        self._known.clear()
        self._clock.restart()
        if self._step >= self._settings.steps:
            self._writer.finish()
            raise StepsDone(0)

    def _record_weights(self, optimizer: Any) -> None:
        """Record the parameters of an optimizer that has made a step, what it keeps of each, and all buffers."""
        self._known.clear()  # lists of tensors are updated without a new version of each
        label = self._label(optimizer)
        site = self._sites.of_caller()
        states: list[tuple[str, torch.Tensor]] = []
        for group_number, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                name = self._names.parameter(parameter) or f"{label}.{group_number}.{number}"
                self._write("parameter", name, 0, 0, parameter, site)
                state = optimizers.state(optimizer, parameter)
                states += ((f"{label}.{what}{STATE_OF}{name}", each) for what, each in state)
        for name, each in states:
            self._write("state", name, 0, 0, each, site)
        for name, buffer in self._names.buffers():
            self._write("buffer", name, 0, 0, buffer, site)

    def _label(self, optimizer: Any) -> str:
        label = self._optimizers.get(optimizer)
        if label is None:
            label = self._optimizers[optimizer] = f"{type(optimizer).__name__}#{len(self._optimizers)}"
        return label

    # Losses.

    def _watching_losses(self, backward: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(backward)
        def call(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if not self._is_foreign():
                if not self._settings.brief:
                    self._retained_gradients()
                for tensor in _tensors(tensors):
                    if not getattr(tensor, "_gpu2npu_scaled", False):
                        self._loss(tensor)
            backward(tensors, *args, **kwargs)

        return call

    def _watching_compile(self, compile_: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compile_)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._writer.compiles = True
            return compile_(*args, **kwargs)

        return call

    def _retained_gradients(self) -> None:
        """Record, for each optimizer that has made a step, whether gradients are there before others are added."""
        for optimizer, label in list(self._optimizers.items()):
            gradients = (each.grad for group in optimizer.param_groups for each in group["params"])
            strided = (each for each in gradients if each is not None and not each.is_sparse)
            retained = any(bool(on_host(each).count_nonzero()) for each in strided)
            self._number_event("kept gradients", label, float(retained))

    def _loss(self, tensor: torch.Tensor) -> None:
        self._write("loss", "loss", self._number("loss", "loss"), 0, tensor, self._sites.of_caller())

    def _watching_scales(self, scale: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(scale)
        def call(scaler: Any, outputs: Any) -> Any:
            if self._is_foreign() or not scaler.is_enabled():
                return scale(scaler, outputs)
            for tensor in _tensors(outputs):
                self._loss(tensor)
            scaled = scale(scaler, outputs)
            for tensor in _tensors(scaled):
                tensor._gpu2npu_scaled = True  # type: ignore[attr-defined]
            self._number_event("loss scale", "GradScaler", float(scaler.get_scale()))
            return scaled

        return call

    # Draws and collectives.

    def draw(self, kind: str, shape: tuple[int, ...], seed: int, number: int) -> None:
        """One draw of random numbers."""
        if not self._is_foreign() and not self._depth and not self._settings.brief:
            within = self._calls.stack[-1] if self._calls.stack else ""
            self._writer.draw(self._step, kind, shape, seed, number, within, self._sites.of_caller(), self._sites)

    def collective(self, name: str, tensors: Any) -> None:
        """One collective, before it starts."""
        if not self._is_foreign() and not self._settings.brief:
            call = self._number("collective", name)
            for part, tensor in enumerate(_tensors(tensors)):
                self._write("collective", name, call, part, tensor, self._sites.of_caller())

    # Checkpoints.

    def _checkpoint(self, saved: Any) -> None:
        """Write what is saved, as part of the step before; `call` is its number among the checkpoints of the step."""
        if self._is_foreign():
            return
        step, site = max(self._step - 1, 0), self._sites.of_caller()
        call = self._saved[step]
        self._saved[step] += 1
        for name, tensor in checkpoints.tensors_of(saved):
            self._write("checkpoint", name, call, 0, tensor, site, step)

    # Writing.

    def _number(self, kind: str, name: str) -> int:
        place = (kind, name)
        number = self._counts[place]
        self._counts[place] += 1
        return number

    def _number_event(self, kind: str, name: str, value: float) -> None:
        call, site = self._number(kind, name), self._sites.of_caller()
        self._writer.number(self._step, kind, name, call, value, site, self._sites)

    def _write(
        self, kind: str, name: str, call: int, part: int, tensor: torch.Tensor, site: int, step: int | None = None
    ) -> None:
        self._depth += 1
        at = self._step if step is None else step
        try:
            self._writer.tensor(at, kind, name, call, part, tensor, self._row(tensor), site, self._sites)
            if self._settings.whole is not None:
                self._whole.tensor((at, kind, name, call, part), tensor)
        finally:
            self._depth -= 1

    def _row(self, tensor: torch.Tensor) -> int:
        """Return the row of a tensor; one that a module returns and the next is given has one."""
        found = self._known.get(id(tensor))
        version = _version(tensor)
        if found is not None and found[0]() is tensor and found[1] == version:
            return found[2]
        row = self._writer.row(tensor)
        self._known[id(tensor)] = (weakref.ref(tensor), version, row)
        return row

    def _is_foreign(self) -> bool:
        """Return whether this is another process than the one that was hooked: a forked worker of a data loader."""
        return os.getpid() != self._process


def _version(tensor: torch.Tensor) -> int:
    """A number that changes as the tensor's elements do."""
    return tensor._version if not tensor.is_inference() else -1


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """The strided tensors with values in nested containers, in order."""
    if isinstance(values, torch.Tensor):
        if values.layout is torch.strided and not values.is_nested and not values.is_meta:
            yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from _tensors(value)
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _tensors(value)
