"""Changes of a captured graph before a replay: arguments of its operators, and the ways to give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

Handler = type["NpuGraphOpHandler"]

_HANDLERS: dict[str, Handler] = {}

# What `NPUGraph.super_kernel_optimize` takes; of a list the type of its elements, of a dictionary its keys.
_SUPER_KERNEL: dict[str, dict[str, Any]] = {
    "optimize_options": {
        **dict.fromkeys(
            ("preload_code", "split_mode", "stream_fusion", "constant_codegen", "auto_op_parallel", "early_start"), int
        ),
        "opt_extend": str,
        "dcci_before_kernel_start": [str],
        "dcci_after_kernel_end": [str],
        "dcci_disable_on_kernel": [str],
        "ubuf_lock_ignore_kernel": [str],
        "aggressive_opt_strategies": dict.fromkeys(
            ("event_breaker_bypass", "value_breaker_bypass", "task_breaker_bypass"), int
        ),
    },
    "debug_options": {
        **dict.fromkeys(
            ("debug_sync_all", "debug_op_exec_trace", "debug_cross_core_sync_check", "debug_per_op_max_core_num"), int
        ),
        "debug_extend": str,
    },
}


@dataclass
class Record:
    """A captured operator whose arguments may be changed: a replay reads them here."""

    op_cache_entry: Any
    args: list[Any]
    kwargs: dict[str, Any]
    handler: Handler


class NpuGraphOpHandler:
    """The way in which `NPUGraph.update` changes an operator; subclasses are registered and never made.

    `UPDATE_SPECS` has, for an operator's name, ("arg", its place, key) or ("kwarg", its name, key) for each key of an
    update.
    """

    UPDATE_SPECS: ClassVar[dict[str, list[tuple[str, Any, str]]]] = {}

    @classmethod
    def prepare_capture(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operator to capture, with its arguments."""
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: dict[str, Any]) -> Any:
        """The value that the caller gets of a captured operator."""
        return result

    @classmethod
    def get_update_specs(cls, op_name: str) -> list[tuple[str, Any, str]]:
        """The arguments of an operator that an update may change."""
        return cls.UPDATE_SPECS.get(op_name, [])

    @classmethod
    def update_args(cls, dispatch_record: Record, update_input: Mapping[str, Any]) -> None:
        """Change the arguments of a captured operator."""
        for kind, place, key in cls.get_update_specs(dispatch_record.op_cache_entry.__name__):
            if key not in update_input:
                continue
            if kind == "kwarg":
                dispatch_record.kwargs[place] = update_input[key]
            elif len(dispatch_record.args) > place:
                dispatch_record.args[place] = update_input[key]


def register_npu_graph_handler(op_names: Sequence[str] | str) -> Callable[[Handler], Handler]:
    """A decorator that registers a class for operators by name, "npu_fused_infer_attention_score.out"."""

    def register(handler: Handler) -> Handler:
        _HANDLERS.update(dict.fromkeys([op_names] if isinstance(op_names, str) else op_names, handler))
        return handler

    return register


@register_npu_graph_handler(
    [
        *(f"npu_fused_infer_attention_score{version}.{form}" for version in ("", "_v2") for form in ("default", "out")),
        "_npu_paged_attention.default",
    ]
)
class _ByName(NpuGraphOpHandler):
    """Changes any argument that an update names as the operator's schema does."""

    @classmethod
    def update_args(cls, dispatch_record: Record, update_input: Mapping[str, Any]) -> None:
        """Change the arguments of a captured operator."""
        for place, argument in enumerate(dispatch_record.op_cache_entry._schema.arguments):
            if argument.name in update_input and place < len(dispatch_record.args):
                dispatch_record.args[place] = update_input[argument.name]


def handler_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handler | None:
    """The class that is registered for an operator, unless it leaves this call alone."""
    found = _HANDLERS.get(func.__name__)
    wanted: Any = getattr(found, "should_handle", None)
    return None if wanted is not None and not wanted(func, args, kwargs) else found


def change(records: Sequence[Record], updates: Sequence[Mapping[str, Any]]) -> None:
    """Change captured operators, each by its update, or all by the only one.

    Raises:
        RuntimeError: There are neither as many updates as operators nor one.
    """
    if len(updates) == 1:
        updates = [updates[0]] * len(records)
    if len(updates) != len(records):
        raise RuntimeError(
            f"Currently, there are {len(records)} operators that need to be updated by capture, and there are only "
            f"{len(updates)} elements in the incoming cpu_update_input list"
        )
    for record, update in zip(records, updates, strict=True):
        record.kwargs.update({key: value for key, value in update.items() if key in record.kwargs})
        record.handler.update_args(record, update)


def check_options(kind: str, options: Any) -> None:
    """Raise RuntimeError for options of `super_kernel_optimize` that torch_npu does not take."""
    if not isinstance(options, (dict, type(None))):
        raise RuntimeError(f"{kind} param must be dict or None.")
    given: dict[str, Any] = options or {}
    for key, value in given.items():
        wanted: Any = _SUPER_KERNEL[kind].get(key)
        if wanted is None:
            raise RuntimeError(f"Invalid {kind} param key: '{key}'.")
        expected = wanted if isinstance(wanted, type) else type(wanted)
        if not issubclass(type(value), expected):
            raise RuntimeError(f"{kind} param['{key}'] must be {expected.__name__}, got {type(value).__name__}")
        if isinstance(wanted, dict):
            unknown = [each for each in value if each not in wanted]
            if unknown:
                raise RuntimeError(f"Invalid sub_key '{unknown[0]}' in {kind}['{key}'].")
            for each, inner in value.items():
                if not isinstance(inner, int):
                    raise RuntimeError(f"{kind}['{key}']['{each}'] must be int, got {type(inner).__name__}")
        elif isinstance(wanted, list):
            for i, each in enumerate(value):
                if not isinstance(each, wanted[0]):
                    raise RuntimeError(f"{kind}['{key}'][{i}] must be {wanted[0].__name__}, got {type(each).__name__}")
