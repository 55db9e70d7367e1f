"""The options of torchair and npugraph_ex: a tree of names, each with its default and the values it may have.

Names and values are those of `torch_npu/dynamo/torchair/configs` in torch_npu 2.13.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CompilerConfig"]

SWITCH = (True, False)
ANY = None
Tree = dict[str, Any]

_DUMP: Tree = {
    "enable_dump": (False, SWITCH),
    "dump_path": ("./", ANY),
    "dump_mode": ("all", ("input", "output", "all")),
    "quant_dumpable": (False, SWITCH),
    "dump_step": ("", ANY),
    "dump_layer": ("", ANY),
    "dump_data": ("tensor", ("tensor", "stats")),
    "dump_config_path": (None, ANY),
    "data_dump_stage": ("optimized", ("original", "optimized")),
}
_DEBUG: Tree = {
    "graph_dump": {"type": (None, ("txt", "pbtxt", "py")), "path": (None, ANY)},
    "data_dump": {"filter": (None, ANY), "type": (None, ("npy",)), "path": (None, ANY)},
    "fx_summary": {"type": (None, ("csv",)), "skip_compile": (True, SWITCH), "path": (None, ANY)},
    "run_eagerly": (False, SWITCH),
    "deadlock_check": (False, SWITCH),
    "aclgraph": {
        "disable_reinplace_inplaceable_ops_pass": (False, SWITCH),
        "disable_reinplace_input_mutated_ops_pass": (False, SWITCH),
        "disable_mempool_reuse_in_same_fx": (False, SWITCH),
        "enable_output_clone": (False, SWITCH),
        "static_capture_size_limit": (64, ANY),
        "clone_input": (True, SWITCH),
        "remove_cat_ops": (True, SWITCH),
    },
}
_EXPERIMENTAL: Tree = {
    "cc_parallel_enable": (False, SWITCH),
    "keep_inference_input_mutations": (True, SWITCH),
    "memory_efficiency": (False, SWITCH),
    "frozen_parameter": (False, SWITCH),
    "static_model_ops_lower_limit": (None, ANY),
    "jit_compile": ("auto", ("auto",)),
    "npu_fx_pass": (False, SWITCH),
    "aot_config_enable_joint_graph": (False, SWITCH),
    "aot_config_output_loss_index": (0, ANY),
    "topology_sorting_strategy": ("DFS", ("BFS", "DFS", "RDFS", "StableRDFS")),
    "enable_ref_data": (False, SWITCH),
    "enable_view_optimize": (True, SWITCH),
    "remove_noop_ops": (True, SWITCH),
    "tiling_schedule_optimize": (False, SWITCH),
    "pattern_fusion_pass": (True, SWITCH),
    "aclgraph": {
        "_aclnn_static_shape_kernel": (False, SWITCH),
        "_aclnn_static_shape_kernel_build_dir": (None, ANY),
        "_aclnn_static_shape_kernel_sym_value_range": (None, ANY),
        "_aclnn_static_shape_kernel_sym_index": (0, ANY),
        "_super_kernel_optimize": (False, SWITCH),
        "_super_kernel_optimize_options": (None, ANY),
        "_super_kernel_debug_options": (None, ANY),
    },
}
OPTIONS: Tree = {
    "mode": ("max-autotune", ("max-autotune", "reduce-overhead", "npugraph_ex")),
    "post_grad_custom_pre_pass": (None, ANY),
    "post_grad_custom_post_pass": (None, ANY),
    "debug": _DEBUG,
    "dump_config": _DUMP,
    "experimental_config": _EXPERIMENTAL,
    "aoe_config": {"aoe_mode": (None, ("2",)), "work_path": ("./", ANY), "aoe_config_file": (None, ANY)},
    "export": {
        "export_mode": (False, SWITCH),
        "export_path_dir": ("./", ANY),
        "export_name": (None, ANY),
        "weight_name": (None, ANY),
        "inputs_name": (None, ANY),
        "experimental": {
            "enable_record_nn_module_stack": (False, SWITCH),
            "auto_atc_config_generated": (False, SWITCH),
            "enable_lite_export": (False, SWITCH),
        },
    },
    "fusion_config": {"fusion_switch_file": (None, ANY)},
    "ge_config": {
        "enable_single_stream": (False, SWITCH),
        "oo_level": ("O3", ("O1", "O3")),
        "oo_constant_folding": (None, SWITCH),
        "oo_dead_code_elimination": (None, SWITCH),
        "export_compile_stat": ("2", ("0", "1", "2")),
        "aicore_num": (None, ANY),
        "optimization_switch": (None, ANY),
        "multistream_parallel_mode": (None, ANY),
    },
    "inference_config": {"dynamic_gears_merge_policy": ("zip", ("zip", "product"))},
    "aclgraph_config": {"use_custom_pool": (None, ANY)},
    "npugraphex_config": {},
}


class Option:
    """The `value` of an option."""

    def __init__(self, name: str, default: Any, allowed: tuple[Any, ...] | None) -> None:
        self._name, self._default, self._allowed = name, default, allowed
        self._value = default

    @property
    def value(self) -> Any:
        """The value that was set, or the default."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        if self._allowed is not None and value not in self._allowed and value != self._default:
            raise ValueError(f"{value} not in optional list {list(self._allowed)} of {self._name}")
        self._value = value


class Options:
    """A branch of the tree: `config.debug.run_eagerly = True` sets an option, other names are refused."""

    _name: str

    def __init__(self, tree: Tree, name: str) -> None:
        made = {
            key: Options(value, key) if isinstance(value, dict) else Option(key, *value) for key, value in tree.items()
        }
        vars(self).update(made, _name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(vars(self).get(name), Option):
            known = [each for each in vars(self) if each != "_name"]
            raise ValueError(f"{self._name} has no option {name}, all options {known}")
        vars(self)[name].value = value


class CompilerConfig(Options):
    """All options of torchair."""

    def __init__(self) -> None:
        super().__init__(OPTIONS, "CompilerConfig")
