import pytest

from gpu2npu.analysis.torch_apis.limits import limit_findings
from gpu2npu.support.behaviour import rows_for

PROGRAM = "import torch\n\nx = torch.ones(2).cuda()\nprint(x.to({}))\n"


def test_a_dtype_is_taken_from_another_file(parse):
    code = parse(f"from other import cfg\n{PROGRAM.format('cfg.dtype')}", other="import torch as cfg\n")
    assert limit_findings(code, "2.7.1") == []
    constants = "import torch\n\n\nclass Cfg:\n    dtype = torch.float64\n\n\ncfg = Cfg()\n"
    code = parse(f"from other import cfg\n{PROGRAM.format('cfg.dtype')}", other=constants)
    assert [each.row for each in limit_findings(code, "2.7.1")] == ["float64-cast-to"]


@pytest.mark.parametrize(
    ("argument", "chip", "rows"),
    [
        ("torch.bfloat16", "910A", ["bfloat16-cast-first-generation"]),
        ("torch.bfloat16", "910B", []),
        ("torch.float8_e5m2", "910B", ["float8-cast"]),
    ],
)
def test_the_rows_of_a_chip_are_found_with_what_they_depend_on(parse, argument, chip, rows):
    assert [each.row for each in limit_findings(parse(PROGRAM.format(argument)), "2.7.1", (chip,))] == rows


def test_rows_are_those_of_a_release_and_its_posts_on_some_chips():
    def ids(api: str, version: str, *chips: str) -> set[str]:
        return {row.id for row in rows_for(api, version, chips)}

    first = {"bfloat16-cast-first-generation"}
    assert ids("torch.Tensor.to", "2.7.1", "910B") == {"channels-last", "float8-cast", "float64-cast-to"}
    assert ids("torch.Tensor.to", "2.1.0", "910B") - ids("torch.Tensor.to", "2.7.1", "910B") == {"integer-device"}
    assert ids("torch.Tensor.to", "2.7.1", "910A", "910B") - ids("torch.Tensor.to", "2.7.1", "910B") == first
    assert "dlpack" in ids("torch.utils.dlpack.from_dlpack", "2.7.1.post2", "910B")  # the release without a post had it
    assert "dlpack" not in ids("torch.utils.dlpack.from_dlpack", "2.9.0", "910B")
