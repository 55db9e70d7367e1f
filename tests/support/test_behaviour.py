"""Tests of what fails on the NPU though the operator exists, by dtype, argument, release and chip."""

import csv
from pathlib import Path

import pytest

from gpu2npu.support.behaviour import OUTCOMES, RAISES, behaviour, lifted, names, row, rows
from gpu2npu.support.chips import CHIPS, chip_families, chip_family, other_meaning
from gpu2npu.support.conditions import CallFacts, TensorFacts
from gpu2npu.support.facts import documented, documented_names
from gpu2npu.support.verdicts import VerdictKind, verdict

TOOLS = Path(__file__).parents[2] / "tools" / "behaviour"


def call(dtypes=(), devices=(), arguments=None):
    """The facts of a call, its tensors by dtypes and devices."""
    made = [TensorFacts(dtype) for dtype in dtypes] + [TensorFacts(device=device) for device in devices]
    return CallFacts(arguments or {}, tuple(made))


def met(name, version="2.7.1", chip="910B", **given):
    found = behaviour(name, call(**given), version, chip)
    return found.id if found is not None else None


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("torch.nn.Linear", {"dtypes": ("float64",)}, "float64-cube"),
        ("aten::mm", {"dtypes": ("float64", "float64")}, "float64-cube"),
        ("torch.set_default_dtype", {"arguments": {"dtype": "float64"}}, "float64-default"),
        ("torch.set_default_dtype", {"arguments": {"dtype": "float32"}}, None),
        ("torch.nn.Module.double", {}, "float64-module"),
        ("torch.matmul", {"dtypes": ("complex64",)}, "complex-cube"),
        ("torch.matmul", {"dtypes": ("int64",)}, "integer-cube"),
        ("torch.matmul", {"dtypes": ("float32",)}, None),
        ("torch.matmul", {}, None),
        ("torch.distributed.all_reduce", {"dtypes": ("float64",)}, "float64-hccl-reduce"),
        ("torch.nn.Module.to", {"arguments": {"dtype": "float64"}}, "float64-module-to"),
        ("torch.einsum", {"dtypes": ("int64",)}, "integer-cube"),
        ("torch.distributed.gather", {"dtypes": ("complex64",)}, "complex-hccl"),
        ("torch.nn.MaxPool2d", {"arguments": {"dilation": 2}}, "max-pool-dilation"),
        ("torch.nn.MaxPool2d", {"arguments": {"dilation": (1, 1)}}, None),
        ("torch.nn.MaxPool2d", {}, None),
        ("torch.nn.Embedding", {"arguments": {"sparse": True}}, None),
        ("torch.Tensor.to_sparse_csr", {}, "sparse-layout"),
        ("torch.Tensor.to", {"arguments": {"memory_format": "torch.channels_last"}}, "channels-last"),
    ],
)
def test_limits(name, given, expected):
    assert met(name, **given) == expected


def test_limits_differ_between_releases_and_chips():
    assert met("torch.from_dlpack", "2.7.1.post0", devices=("npu",)) == "dlpack"
    assert met("torch.from_dlpack", "2.7.1.post2", devices=("npu",)) is None
    assert met("torch.from_dlpack", "2.7.1.post0", devices=("cpu",)) is None
    assert met("torch.nn.Embedding", "2.1.0.post0", arguments={"sparse": True}) == "sparse-embedding"
    assert met("torch.nn.Embedding", "2.1.0.post3", arguments={"sparse": True}) is None
    assert met("torch.distributed.all_reduce", chip="950", dtypes=("float64",)) != "float64-hccl-reduce"
    assert met("torch.nn.Linear", chip="910A", dtypes=("bfloat16",)) == "bfloat16-first-generation"
    assert met("torch.nn.Linear", chip="910B", dtypes=("bfloat16",)) != "bfloat16-first-generation"
    with pytest.raises(ValueError, match="no chip family 'H100'"):
        behaviour("torch.mm", CallFacts(), "2.7.1", "H100")


@pytest.mark.parametrize(
    ("dtype", "op", "chips"),
    [
        ("float64", "SUM", {"910A", "910B", "910_93", "310P"}),
        ("bfloat16", "SUM", {"910A", "310P"}),
        ("bfloat16", "PRODUCT", {"910A", "910B", "910_93", "310P"}),
        ("int16", "SUM", {"910A"}),
        ("int16", "MAX", {"910A", "310P"}),
        ("int64", "SUM", {"310P"}),
        ("int32", "SUM", set()),
        ("int32", "BAND", set(CHIPS)),
        ("int32", "AVG", set(CHIPS)),
    ],
)
def test_what_hccl_reduces_on_each_chip(dtype, op, chips):
    given = call((dtype,), arguments={"op": f"torch.distributed.ReduceOp.{op}"})
    found = {chip: behaviour("torch.distributed.all_reduce", given, "2.7.1", chip) for chip in CHIPS}
    assert {chip for chip, each in found.items() if each is not None and each.outcome == RAISES} == chips


def test_every_chip_differs_from_every_other():
    """A family of chips is named because a limit distinguishes it from the others."""
    by_chip = {chip: {each.id for each in rows() if chip in each.chips} for chip in CHIPS}
    same = [{one, other} for one in CHIPS for other in CHIPS if one < other and by_chip[one] == by_chip[other]]
    assert same == [{"910B", "910_93"}]  # two dies of the same generation in one package


def test_a_post_release_lifts_a_limit():
    given = call(devices=("npu",))
    limit_lifted = lifted("torch.from_dlpack", given, "2.7.1")
    assert limit_lifted is not None and limit_lifted[1] == "2.7.1.post2"
    assert lifted("torch.from_dlpack", given, "2.7.1.post0") is None  # it meets the limit
    assert lifted("torch.from_dlpack", given, "2.13.0") is None  # every 2.13 exchanges
    assert lifted("torch.mm", given, "2.7.1") is None


def test_ring_attention_came_with_post_releases():
    name = "torch.distributed.tensor.experimental.context_parallel"
    lacking = ("2.1.0", "2.7.1.post6", "2.8.0.post5", "2.9.0.post4", "2.9.1", "2.10.0.post2", "2.12.0rc1")
    having = ("2.7.1.post8", "2.9.0.post6", "2.10.0.post4", "2.11.0", "2.12.0", "2.13.0", "2.14.0")
    assert [met(name, version) for version in lacking] == ["context-parallel"] * len(lacking)
    assert [met(name, version) for version in having] == [None] * len(having)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        *((chip, chip) for chip in CHIPS),
        ("Ascend910B2", "910B"),
        ("ascend910b4-1", "910B"),
        ("Ascend910_9392", "910_93"),
        ("910C", "910_93"),
        ("A3", "910_93"),
        ("Ascend910ProB", "910A"),
        ("Ascend310P3", "310P"),
        ("Ascend310B4", "310P"),
        ("Ascend950PR", "950"),
    ],
)
def test_names_of_chips(name, family):
    assert chip_family(name) == family


def test_a_name_that_two_chips_have():
    assert "Ascend910ProB" in other_meaning("Ascend910B") and "first generation" in other_meaning("910b")
    assert other_meaning("Ascend910B2") == other_meaning("310P") == ""


def test_families_of_several_chips_are_named_once():
    assert chip_families(("Ascend910B2", "910C", "910B")) == ("910B", "910_93")
    assert chip_families(()) == ()


@pytest.mark.parametrize("name", ["", "H100", "A100", "910"])
def test_names_of_no_family(name):
    with pytest.raises(ValueError, match="there are 910A, 910B"):
        chip_family(name)


def test_bfloat16_on_the_first_generation():
    for name in ("torch.autocast", "torch.cuda.amp.autocast", "torch.set_default_dtype", "torch.nn.Module.bfloat16"):
        given = {"arguments": {"device_type": "cuda", "dtype": "bfloat16"}}
        assert (met(name, chip="310P", **given) or "").endswith("first-generation")
        assert met(name, chip="910B", **given) is None
    assert met("torch.autocast", chip="910A", arguments={"device_type": "cpu", "dtype": "bfloat16"}) is None


def test_every_limit_has_its_source_and_names_that_exist():
    for each in rows():
        assert each.source and each.evidence and each.advice, each.id
        assert each.chips <= set(CHIPS) and (each.apis or each.operators)
        assert each.outcome in OUTCOMES
    public = [name for name in names() if name.startswith("torch.") and "._" not in name]
    unknown = [name for name in public if "no public" in verdict(name, "2.7.1").evidence]
    assert unknown == []
    assert len({each.id for each in rows()}) == len(rows())


def test_what_the_documentation_says():
    assert len(documented_names()) == 3381
    linear = documented("torch.nn.Linear")
    assert linear is not None and linear.supported and "910B" in linear.chips and "float32" in linear.dtypes
    assert documented("torch.nn.MaxUnpool3d").supported is False
    unique = [documented("torch.unique_consecutive", release) for release in ("2.10.0", "2.11.0")]
    assert [each is not None and each.supported for each in unique] == [True, False]
    assert verdict("torch.accelerator.memory.empty_host_cache", "2.13.0").kind is VerdictKind.NATIVE
    assert verdict("torch.export.export", "2.7.1").kind is VerdictKind.UNKNOWN
    assert verdict("torch.UntypedStorage.nbytes", "2.7.1").kind is VerdictKind.NATIVE
    assert verdict("torch.UntypedStorage.nbytes", "2.1.0").kind is not VerdictKind.UNSUPPORTED


def test_each_drawn_limit_is_refused_or_has_a_reason():
    """The 80 limits that were drawn from torch_npu's pages: the NPU refuses 64, computes two in another way."""
    drawn, answers = (list(csv.DictReader((TOOLS / name).open())) for name in ("drawn.csv", "drawn_rows.csv"))
    assert [(each["api"], each["number"]) for each in drawn] == [(each["api"], each["number"]) for each in answers]
    assert all(row(each["row"]) if each["row"] else each["reason"] for each in answers)
    outcomes = [row(each["row"]).outcome for each in answers if each["row"]]
    without_row = [each["api"] for each in answers if each["reason"].startswith("refused")]
    assert outcomes.count(RAISES) + len(without_row) == 64 and len(outcomes) == 65
    assert {verdict(api, "2.7.1").kind for api in without_row} == {VerdictKind.UNSUPPORTED}
