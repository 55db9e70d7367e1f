"""Verdicts against what was written down by hand from the operator lists, and the rules they follow."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu.support import facts
from gpu2npu.support.release_tables import table_for
from gpu2npu.support.releases import RELEASES, VERSIONS, known_torch_npu
from gpu2npu.support.spellings import api_variants, is_torch_api
from gpu2npu.support.verdicts import VerdictKind, verdict

BY_HAND = Path(__file__).with_name("api_verdicts.csv")
CHECKED = ("2.1.0", "2.7.1", "2.13.0")  # the first wheels of these releases
# What small models use every day.
DAILY = """
torch.nn.Linear torch.nn.Conv1d torch.nn.Conv2d torch.nn.Conv3d torch.nn.ConvTranspose2d torch.nn.LayerNorm
torch.nn.BatchNorm1d torch.nn.BatchNorm2d torch.nn.GroupNorm torch.nn.InstanceNorm2d torch.nn.Embedding
torch.nn.MultiheadAttention torch.nn.TransformerEncoderLayer torch.nn.TransformerDecoderLayer torch.nn.Transformer
torch.nn.LSTM torch.nn.GRU torch.nn.RNN torch.nn.ReLU torch.nn.GELU torch.nn.SiLU torch.nn.Sigmoid torch.nn.Tanh
torch.nn.LeakyReLU torch.nn.ELU torch.nn.PReLU torch.nn.Softmax torch.nn.LogSoftmax torch.nn.Dropout
torch.nn.MaxPool2d torch.nn.AvgPool2d torch.nn.AdaptiveAvgPool2d torch.nn.Upsample torch.nn.PixelShuffle
torch.nn.Flatten torch.nn.Identity torch.nn.Sequential torch.nn.ModuleList torch.nn.Parameter torch.nn.CrossEntropyLoss
torch.nn.NLLLoss torch.nn.MSELoss torch.nn.L1Loss torch.nn.SmoothL1Loss torch.nn.BCELoss torch.nn.BCEWithLogitsLoss
torch.nn.KLDivLoss torch.nn.CTCLoss torch.optim.SGD torch.optim.Adam torch.optim.AdamW torch.optim.RMSprop
torch.optim.Adagrad torch.optim.lr_scheduler.StepLR torch.optim.lr_scheduler.CosineAnnealingLR
torch.optim.lr_scheduler.LambdaLR torch.utils.data.DataLoader torch.utils.data.Dataset
torch.utils.data.distributed.DistributedSampler torch.nn.parallel.DistributedDataParallel torch.no_grad torch.save
torch.load torch.manual_seed torch.tensor torch.zeros torch.ones torch.arange torch.randn torch.cat torch.stack
torch.matmul torch.bmm torch.einsum torch.sum torch.mean torch.max torch.argmax torch.softmax torch.where torch.exp
torch.Tensor.view torch.Tensor.reshape torch.Tensor.permute torch.Tensor.transpose torch.Tensor.to torch.Tensor.item
torch.Tensor.backward torch.Tensor.detach torch.Tensor.cpu torch.Tensor.numpy torch.Tensor.contiguous
torch.nn.functional.relu torch.nn.functional.cross_entropy torch.nn.functional.softmax
torch.nn.functional.interpolate torch.nn.functional.pad torch.nn.functional.dropout torch.nn.functional.linear
torch.nn.functional.scaled_dot_product_attention torch.nn.functional.layer_norm torch.nn.functional.normalize
torch.nn.init.xavier_uniform_ torch.nn.init.kaiming_normal_ torch.nn.init.normal_ torch.nn.init.zeros_
torch.nn.utils.rnn.pad_sequence torch.autograd.Function torch.autocast
torch.distributed.all_reduce torch.distributed.init_process_group torch.distributed.barrier
""".split()  # noqa: SIM905


def rows() -> list[dict[str, str]]:
    with BY_HAND.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["api"])
def test_verdicts_are_those_written_by_hand(row):
    found = [verdict(row["api"], known_torch_npu(version)).kind.value for version in CHECKED]
    assert found == [row[version] for version in CHECKED]


def test_the_hand_written_list_is_large_and_its_evidence_is_in_the_tables():
    """Each operator it names is, or is not, in the table of the release; test_wheels.py compares tables with wheels."""
    assert len({row["api"] for row in rows()}) >= 150
    named = 0
    for row in rows():
        for version in CHECKED:
            table = table_for(known_torch_npu(version))
            for part in row[f"evidence in {version}"].split("; "):
                if "::" not in part:
                    continue
                operator, place = part.split(" ")
                assert (operator in table.supported | table.custom) == (place != "absent"), (row["api"], version, part)
                named += 1
    assert named > 450


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_of_every_day_is_called_unsupported_or_falling_back(version):
    good = (VerdictKind.NATIVE, VerdictKind.COMPOSITE)
    assert [(api, verdict(api, version)) for api in DAILY if verdict(api, version).kind not in good] == []


def test_clipping_by_norm_falls_back_only_where_the_foreach_norm_is_missing():
    """torch 2.1's clip_grad_norm_ calls torch._foreach_norm on every device that is named, torch_npu's included."""
    old, new = (verdict("torch.nn.utils.clip_grad_norm_", version) for version in ("2.1.0.post0", "2.7.0"))
    assert old.kind is VerdictKind.FALLBACK and "foreach=False" in old.advice and "_foreach_norm" in old.evidence
    assert new.kind is VerdictKind.COMPOSITE
    assert verdict("torch.nn.utils.clip_grad_value_", "2.1.0.post0").kind is VerdictKind.FALLBACK
    assert verdict("torch.nn.utils.clip_grad_value_", "2.4.0").kind is VerdictKind.NATIVE


def test_evidence_names_operators_and_the_wheel():
    found = verdict("torch.lgamma", "2.7.0")
    assert "aten::convolution" in verdict("torch.nn.Conv2d", "2.7.0").evidence
    assert "aten::lgamma" in found.evidence and "torch_npu-2.7.1.post11" in found.evidence
    assert "TORCH_NPU_FALLBACK_CPU_DISABLE" in verdict("torch.lgamma", "2.13.0").advice
    assert "TORCH_NPU_FALLBACK_CPU_DISABLE" not in verdict("torch.lgamma", "2.7.1.post10").advice


@pytest.mark.parametrize(
    ("api", "evidence"),
    [
        ("torch.lgamma", "aten::lgamma is not registered for the NPU ("),
        (
            "torch.Tensor.histogram",
            "aten::histogram.bin_ct, aten::histogram.bins_tensor are not registered for the NPU (",
        ),
        (
            "torch.distributions.utils.tril_matrix_to_vec",
            "aten::add.Tensor, aten::arange, aten::index.Tensor, aten::lt.Tensor registered for the NPU (",
        ),
        (
            "torch.distributions.SoftmaxTransform",
            "aten::div.Tensor, aten::exp, aten::max.dim, aten::sub.Tensor and 1 more registered for the NPU (",
        ),
    ],
)
def test_evidence_names_four_operators_at_most(api: str, evidence: str) -> None:
    assert verdict(api, "2.1.0").evidence.startswith(evidence)


@pytest.mark.parametrize(
    ("api", "version", "operator"),
    [
        ("torch.nn.GRU", "2.1.0", None),  # torch_npu registers the whole, not its parts: it has a backward of its own
        ("torch.nn.LSTMCell", "2.1.0", None),
        ("torch.nn.GRUCell", "2.7.0", None),  # and here a part of it has one
        ("torch.Tensor.sgn", "2.7.0", "aten::_efficientzerotensor"),
        ("torch.nn.MultiLabelMarginLoss", "2.7.0", "aten::multilabel_margin_loss_backward"),
    ],
)
def test_a_gradient_falls_back_where_torch_npu_has_none_of_its_own(api: str, version: str, operator: str) -> None:
    note = f"its gradient needs {operator}, which falls back to the CPU"
    assert verdict(api, version).advice == (note if operator is not None else "")


def test_what_is_gone_with_its_module_is_named():
    pipe = "torch.distributed.pipeline.sync.Pipe"
    gone, there = verdict(pipe, "2.7.1"), verdict(pipe, "2.1.0")
    assert gone.kind is VerdictKind.UNSUPPORTED and "PyTorch 2.7.0 has no" in gone.evidence
    assert "has no" not in there.evidence
    # The module is there, and what it imports is no name of its own.
    assert "has no" not in verdict("torch.distributed.checkpoint.metadata.ShardedTensor", "2.7.1").evidence


def test_an_api_that_came_later_says_when():
    found = verdict("torch.nn.RMSNorm", "2.3.0")
    assert found.kind is VerdictKind.UNSUPPORTED and "2.4.0" in found.evidence
    assert verdict("torch.nn.RMSNorm", "2.4.0").kind is VerdictKind.COMPOSITE
    assert verdict("torch.nn.Buffer", "2.4.0").kind is VerdictKind.UNSUPPORTED
    assert verdict("torch.nn.Buffer", "2.5.0").kind is VerdictKind.NATIVE
    gone = verdict("torch.Tensor.align_as", "2.13.0")
    assert gone.kind is VerdictKind.UNSUPPORTED and "removed" in gone.evidence


def test_names_are_found_where_they_are_defined_and_through_their_classes():
    assert verdict("torch.nn.modules.conv.Conv2d", "2.1.0").kind is VerdictKind.COMPOSITE
    assert verdict("torch.optim.adamw.AdamW", "2.1.0").kind is VerdictKind.NATIVE
    assert verdict("torch.nn.Conv2d.forward", "2.1.0").kind is VerdictKind.COMPOSITE
    assert verdict("torch.nn.Conv2d.state_dict", "2.1.0").kind is VerdictKind.NATIVE
    assert verdict("torch.optim.SparseAdam.step", "2.1.0").kind is VerdictKind.UNSUPPORTED


def test_paths_that_are_requested_are_advice():
    found = verdict("torch.nn.functional.interpolate", "2.1.0.post0")
    assert found.kind is VerdictKind.COMPOSITE and "falls back" in found.advice
    assert "fused=True" in verdict("torch.optim.Adam", "2.7.1.post10").advice


def test_what_torch_npu_makes_raise_is_unsupported():
    assert verdict("torch.jit.ScriptModule.register_buffer", "2.7.0").kind is VerdictKind.UNSUPPORTED
    assert verdict("torch.nested.nested_tensor", "2.1.0").kind is VerdictKind.UNSUPPORTED


def test_cuda_and_npu_names():
    assert verdict("torch.cuda.is_available", "2.1.0").kind is VerdictKind.NATIVE
    assert verdict("torch.cuda.nvtx.range_push", "2.1.0").kind is VerdictKind.UNSUPPORTED
    assert verdict("torch_npu.npu_rms_norm", "2.7.0").kind is VerdictKind.NATIVE
    assert verdict("torch_npu.npu_no_such_operator", "2.7.0").kind is VerdictKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("torch.npu", VerdictKind.NATIVE),
        ("torch.npu.set_device", VerdictKind.NATIVE),
        ("torch.npu.Event.elapsed_time", VerdictKind.NATIVE),
        ("torch_npu.npu", VerdictKind.NATIVE),
        ("torch_npu.npu.set_device", VerdictKind.NATIVE),
        ("torch_npu.npu_format_cast", VerdictKind.NATIVE),
        ("torch_npu.npu_min", VerdictKind.NATIVE),
        ("torch_npu.profiler.profile", VerdictKind.NATIVE),
        ("torch_npu.profiler.ProfilerActivity.NPU", VerdictKind.NATIVE),
        ("torch.npu.mstx.range_push", VerdictKind.UNSUPPORTED),
        ("torch_npu.npu.mstx.range_push", VerdictKind.UNSUPPORTED),
        ("torch_npu.npu_swiglu", VerdictKind.NATIVE),
        ("torch.npu.nonsense", VerdictKind.UNSUPPORTED),
        ("torch.npu.npu_min", VerdictKind.UNSUPPORTED),
    ],
)
def test_names_of_torch_npu_itself(api: str, kind: VerdictKind) -> None:
    found = verdict(api, "2.1.0")
    assert found.kind is kind
    assert found.evidence.endswith("(torch_npu-2.1.0.post17)")
    assert bool(found.later) is found.evidence.startswith("this torch_npu has no")


@pytest.mark.parametrize(
    "api",
    [
        "torch_npu.contrib.module.DropoutWithByteMask",
        "torch_npu.contrib.module.QuantConv2d",
        "torch_npu.contrib.module.linear_quant.LinearQuant",
        "torch_npu.contrib.function._matmul_transpose",
        "torch_npu.testing.testcase.TestCase",
        "torch_npu.distributed.rpc.options.NPUTensorPipeRpcBackendOptions",
        "torch_npu.profiler.profiler_interface",
        "torch_npu.profiler._ExperimentalSettings",
        "torch_npu.contrib.function",
        "torch_npu.hifloat8",
    ],
)
def test_a_package_of_torch_npu_has_more_than_tables_list(api: str) -> None:
    assert verdict(api, "2.7.1").kind is VerdictKind.UNKNOWN


@pytest.mark.parametrize(
    ("api", "near"),
    [
        ("torch_npu.quick_attention", "another name"),
        ("torch_npu.npu_flash_attention", "torch_npu.npu_fusion_attention"),
        ("torch.npu.get_mem_info", "torch.npu.mem_get_info"),
        ("torch_npu.contrib.functions", "torch_npu.contrib.function"),
        ("torch_npu.contrib.BiLTSM", "torch_npu.contrib.BiLSTM"),
        ("torch_npu.contrib.module.roi_aling.ROIAlign", "torch_npu.contrib.module.roi_align"),
        ("torch_npu.contrib.module.attention", "another name"),
    ],
)
def test_a_name_that_torch_npu_never_had(api: str, near: str) -> None:
    found = verdict(api, "2.7.1")
    assert (found.kind, found.advice) == (VerdictKind.UNSUPPORTED, f"no release has it: look whether {near} is meant")


@pytest.mark.parametrize(
    ("api", "version", "source"),
    [
        ("torch.cuda.graph", "2.1.0", "torch_npu-2.1.0.post17, from 2.1.0.post12 on"),
        ("torch.cuda.graph", "2.7.1", "torch_npu-2.7.1.post11"),
        ("torch.cuda.set_device", "2.1.0", "torch_npu-2.1.0.post17"),
    ],
)
def test_the_evidence_says_from_which_wheel_on_it_holds(api: str, version: str, source: str) -> None:
    assert f"({source})" in verdict(api, version).evidence


def test_torch_taken_from_torch_is_torch():
    assert verdict("torch.torch.deg2rad", "2.1.0") == verdict("torch.deg2rad", "2.1.0")
    assert verdict("torch.nn.functional.torch.relu", "2.1.0").api == "torch.relu"
    assert verdict("torch.torch.cuda.is_available", "2.1.0") == verdict("torch.cuda.is_available", "2.1.0")
    assert verdict("torch.ops.torch.relu", "2.1.0").api == "torch.ops.torch.relu"


@pytest.mark.parametrize(
    ("api", "kinds"),  # in 2.6, 2.7, 2.9, 2.10, 2.12, 2.13
    [
        ("current_accelerator", "unknown native native native native native"),
        ("synchronize", "unknown native native native native native"),
        ("empty_cache", "unsupported unsupported unsupported unsupported unsupported native"),
        ("memory.memory_allocated", "unknown unknown unsupported unsupported unsupported native"),
        ("get_memory_info", "unsupported unsupported unsupported unsupported unsupported native"),
        ("Graph", "unsupported unsupported unsupported unsupported unknown unknown"),
    ],
)
def test_the_accelerator_is_supported_as_far_as_torch_npu_answers(api, kinds):
    """The vendor lists no memory functions, and the allocator of the wheels before 2.13 is not the one they ask for."""
    releases = ("2.6.0", "2.7.0", "2.9.0", "2.10.0", "2.12.0", "2.13.0")
    found = [verdict(f"torch.accelerator.{api}", release) for release in releases]
    assert [each.kind.value for each in found] == kinds.split()
    for each in found:
        came = each.later or "NPUCachingAllocator.h" in each.evidence
        assert each.kind is not VerdictKind.UNSUPPORTED or came


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_what_runs_on_the_host_is_native(version):
    names = "get_autocast_cpu_dtype set_autocast_cpu_dtype is_autocast_cpu_enabled is_anomaly_enabled"
    apis = [f"torch.{name}" for name in names.split()]
    apis += ["torch.multiprocessing.spawn", "torch.multiprocessing.get_context", "torch.nn.utils.remove_weight_norm"]
    assert {verdict(api, version).kind for api in apis} == {VerdictKind.NATIVE}
    assert verdict("torch.set_autocast_dtype", "2.3.0").later


@pytest.mark.parametrize("release", RELEASES)
def test_distributions_are_as_fast_as_what_they_draw_with(release):
    """As the vendor's list for 2.7.1 has it: Binomial, Cauchy and Chi2 may run on the CPU."""
    kinds = {name: verdict(f"torch.distributions.{name}", release).kind for name in ("Independent", "TanhTransform")}
    assert set(kinds.values()) <= {VerdictKind.NATIVE, VerdictKind.COMPOSITE}
    for name in ("Binomial", "Cauchy", "Chi2", "chi2.Chi2"):
        assert verdict(f"torch.distributions.{name}", release).kind is VerdictKind.FALLBACK


def test_what_is_no_api_is_unknown():
    for name in ("torch.nonsense", "torch.utils.data.Nonsense", "torch.nn.Nonsense", "numpy.array", "mine.torch.add"):
        assert verdict(name, "2.7.0").kind is VerdictKind.UNKNOWN
    assert is_torch_api("torch.Tensor.scatter_add_") and is_torch_api("torch_npu.npu_rms_norm")
    assert not any(map(is_torch_api, ("torch", "numpy.add", "torch._C.foo", "torchvision.ops.nms")))
    with pytest.raises(ValueError, match=r"3\.0\.0"):
        verdict("torch.add", "3.0.0")


def test_one_verdict_for_all_spellings_and_spaces():
    defined = verdict("torch.ao.quantization.stubs.QuantStub", "2.7.1")
    assert defined == verdict("torch.ao.quantization.QuantStub", "2.7.1")
    assert verdict("torch.mps.synchronize", "2.7.1").evidence == "it is for another device"
    assert verdict("torch.cuda.OutOfMemoryError", "2.7.1.post2").advice == "catch RuntimeError"
    assert verdict("torch.OutOfMemoryError", "2.7.1.post4").kind is VerdictKind.NATIVE
    older = verdict("torch.npu.MemPool", "2.1.0.post3")
    assert older.kind is VerdictKind.UNSUPPORTED and older.later and "has it" in older.advice
    assert verdict("torch_npu.nonsense", "2.1.0").kind is VerdictKind.UNSUPPORTED
    # A class of that release lists no members, and a later one lists this.
    assert verdict("torch.npu.mstx.mark", "2.1.0.post6").kind is VerdictKind.UNSUPPORTED


@pytest.mark.parametrize("release", RELEASES)
def test_every_traced_api_has_a_verdict(release):
    verdicts = [verdict(api, release) for api in api_variants()]
    kinds = [found.kind for found in verdicts]
    assert all(found.evidence for found in verdicts)
    assert kinds.count(VerdictKind.UNKNOWN) < 0.03 * len(kinds)
    assert kinds.count(VerdictKind.NATIVE) > 0.45 * len(kinds)
    assert 0.05 * len(kinds) < kinds.count(VerdictKind.FALLBACK) < 0.25 * len(kinds)


def test_a_later_release_rarely_loses_what_an_earlier_one_had():
    good = (VerdictKind.NATIVE, VerdictKind.COMPOSITE)
    lost = [
        api for api in api_variants() if verdict(api, "2.1.0").kind in good and verdict(api, "2.13.0").kind not in good
    ]
    assert len(lost) < 10, lost


def test_no_torch_is_imported():
    code = """import sys
from gpu2npu.support.verdicts import verdict
verdict('torch.add', '2.1.0')
sys.exit('torch' in sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_facts_state_releases_verdicts_and_sources():
    kinds = {"", *(kind.value for kind in VerdictKind)}
    for fact in facts.known_facts():
        assert fact.verdict in kinds and fact.evidence and fact.source and fact.apis
        assert RELEASES.index(fact.since) <= RELEASES.index(fact.until)
        assert fact.source.startswith("https://") or fact.source.endswith((" of the wheels", "(unsupported_dtype)"))
    assert len({fact.id for fact in facts.known_facts()}) == len(facts.known_facts())
    assert json.loads(facts.KNOWN_FACTS.read_text(encoding="utf-8"))


def test_a_fact_holds_for_its_releases_and_a_name_precedes_a_pattern():
    assert facts.fact_for("torch.optim.Adam", "2.3.0").assume == "foreach=False"
    assert facts.fact_for("torch.optim.Adam", "2.4.0") is None
    assert facts.fact_for("torch.distributed.all_reduce", "2.7.0").id == "collectives"
    assert facts.fact_for("torch.distributed.is_initialized", "2.7.0").id == "host-packages"
    assert facts.fact_for("torch.matmul", "2.7.0") is None


@pytest.mark.parametrize("release", CHECKED)
@pytest.mark.parametrize(
    ("api", "same"),
    [
        ("torch.Tensor.relu", "torch.relu"),
        ("torch.Tensor.relu_", "torch.relu_"),
        ("torch.nn.utils.spectral_norm.spectral_norm", "torch.nn.utils.spectral_norm"),
        ("torch.nn.utils.clip_grad.clip_grad_norm", "torch.nn.utils.clip_grad_norm_"),
        ("torch.nn.init.kaiming_normal", "torch.nn.init.kaiming_normal_"),
    ],
)
def test_another_name_of_the_same_operators_has_their_verdict(release, api, same):
    version = known_torch_npu(release)
    assert verdict(api, version).kind == verdict(same, version).kind != VerdictKind.UNKNOWN


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_fused_weights_are_made_of_what_every_release_has(version):
    api = "torch.nn.utils.fusion.fuse_conv_bn_weights"
    assert verdict(api, version).kind is VerdictKind.COMPOSITE
    for operator in ("aten::rsqrt", "aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor"):
        assert operator in table_for(version).supported


def test_what_is_missing_or_unknown_says_what_to_do():
    assert "-v 2.3.0" in verdict("torch.uint16", "2.1.0").advice
    assert "try it on an NPU" in verdict("torch.nn.L2loss", "2.7.0").advice


@pytest.mark.parametrize(
    ("api", "is_public"),
    [
        ("torch.nn.Nonsense", False),
        ("torch.linalg.nonsense", False),
        ("torch.cuda.nonsense", False),
        ("torch.nn.Nonsense.forward", True),
        ("torch.ops.aten.nonsense", True),
    ],
)
def test_a_name_that_pytorch_lacks_differs_from_one_that_no_table_lists(api: str, is_public: bool) -> None:
    """No table has the members of classes, nor all operators."""
    found = verdict(api, "2.7.1")
    assert found.kind is VerdictKind.UNKNOWN
    assert found.evidence.startswith("nothing is known" if is_public else f"PyTorch has no public {api}")


def test_a_librarys_operator_is_no_name_that_pytorch_lacks():
    found = verdict("torch.ops.vision.nms", "2.1.0")
    assert found.kind is VerdictKind.UNKNOWN
    assert "no public" not in found.evidence


def test_the_cpus_generator_stays_as_it_is():
    assert verdict("torch.default_generator.set_state", "2.1.0").kind is VerdictKind.NATIVE


def test_operators_of_another_library() -> None:
    found = verdict("torch.ops.pyg.neighbor_sample", "2.7.1")
    assert (found.kind, found.evidence) == (VerdictKind.UNKNOWN, "an operator of another library")
    assert "another library" not in verdict("torch.ops.load_library", "2.7.1").evidence


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("torch.ops.aten.index.Tensor", VerdictKind.NATIVE),
        ("torch.ops.aten.index_select.default", VerdictKind.NATIVE),
        ("torch.ops.aten.cat", VerdictKind.NATIVE),
        ("torch.ops.aten.lgamma.default", VerdictKind.FALLBACK),
        ("torch.ops.aten.no_such_operator", VerdictKind.UNKNOWN),
        ("torch.ops.load_library", VerdictKind.UNKNOWN),
    ],
)
def test_operators_by_their_own_names(api: str, kind: VerdictKind) -> None:
    assert verdict(api, "2.7.1").kind is kind


def test_a_later_wheel_of_the_same_release_has_an_operator() -> None:
    found = verdict("torch_npu.npu_geglu", "2.1.0.post0")
    assert (found.kind, found.later) == (VerdictKind.UNSUPPORTED, "2.1.0.post3")
    assert found.advice == "move to torch_npu 2.1.0.post3, which has it"


def test_what_makes_a_sparse_tensor_has_advice_before_it_is_documented() -> None:
    before, documented = (verdict("torch.sparse_coo_tensor", version) for version in ("2.6.0", "2.7.1"))
    assert (before.kind, documented.kind) == (VerdictKind.UNKNOWN, VerdictKind.NATIVE)
    assert before.advice == verdict("torch.Tensor.to_sparse", "2.6.0").advice
