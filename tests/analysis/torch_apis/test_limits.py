import pytest

from gpu2npu.analysis.torch_apis.limits import limit_findings

BETWEEN = "import torch\n\n\ndef f(x, y):\n    return x.to(y.dtype)\n\n\nprint(f(torch.ones(2), torch.ones(2)))\n"
PROGRAM = "import torch\n\nx = torch.ones(2).cuda()\nprint(x.to({}))\n"


def test_no_value_is_followed_for_rows_without_a_word_in_the_file(parse):
    code = parse(BETWEEN)
    assert limit_findings(code, "2.7.1") == []
    assert code.names.project.values.answers == 0


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
