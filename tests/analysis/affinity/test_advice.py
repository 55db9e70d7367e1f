import pytest

from gpu2npu.analysis.affinity.advice import MATCHERS, affinities, affinity_advice, available, knowledge_for
from gpu2npu.codemods.affinity.codemod import applicable
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine.torch_library import TORCH
from gpu2npu.records import AdviceKind
from gpu2npu.shapes.catalogue import SHAPES
from gpu2npu.support.release_tables import table_for
from gpu2npu.support.releases import VERSIONS

EXAMPLES = [(affinity, example) for affinity in affinities() for example in affinity.examples]


def advice(parse, text: str, version: str = "2.1.0"):
    code = parse(text)
    return affinity_advice(code, version)


@pytest.mark.parametrize(("affinity", "example"), EXAMPLES, ids=lambda part: getattr(part, "id", ""))
def test_each_piece_of_knowledge_shows_what_it_finds(parse, affinity, example) -> None:
    found = [
        each for each in advice(parse, example["code"], example.get("version", "2.1.0")) if each.rule == affinity.id
    ]
    assert [each.api for each in found] == ([example["finds"]] if example["finds"] else [])


@pytest.mark.parametrize("affinity", affinities(), ids=lambda affinity: affinity.id)
def test_each_piece_of_knowledge_is_whole(affinity) -> None:
    assert any(example["finds"] for example in affinity.examples)
    assert not all(example["finds"] for example in affinity.examples)
    assert affinity.why.endswith(".") and affinity.source
    assert affinity.form in ("torch", "function", "class", "special")
    assert [bool(affinity.calls), bool(affinity.defines), bool(affinity.shape)].count(True) == 1
    assert affinity.shape in ("", *MATCHERS)
    for replacement in affinity.calls.values() or [affinity.replacement]:
        assert any(available(affinity, replacement, table_for(version)) for version in VERSIONS), replacement


def test_ids_are_unique_and_every_matcher_is_used() -> None:
    assert len({affinity.id for affinity in affinities()}) == len(affinities())
    assert {affinity.shape for affinity in affinities()} - {""} == set(MATCHERS)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_advised_that_the_release_lacks(version: str) -> None:
    table = table_for(version)
    known = knowledge_for(version)
    replacements = {affinity.calls[name] for name, affinity in known.calls.items()}
    replacements |= {affinity.replacement for affinity in (*known.shapes, *known.defines.values())}
    operators = {name.partition(".")[0].removeprefix("npu::") for name in table.custom}
    for replacement in replacements:
        names = replacement in table.torch_npu_names or replacement.removeprefix("torch_npu.") in operators
        assert names or replacement.startswith(("torch.nn.functional.", "torch.where")), replacement


def test_what_is_reported(parse) -> None:
    [reported] = advice(parse, "import torch\nopt = torch.optim.AdamW(\n    ps)\n")
    assert reported.kind is AdviceKind.AFFINITY and reported.form == "torch"
    assert (reported.span.start_line, reported.span.end_line) == (2, 3)
    assert reported.replacement == "torch_npu.optim.NpuFusedAdamW"
    assert reported.message.endswith("torch_npu.optim.NpuFusedAdamW is part of torch_npu-2.1.0.post17.")


def test_a_definition_is_reported_at_its_first_line(parse) -> None:
    text = (
        "import torch\n\ndef norm(x, w):\n    v = x.pow(2).mean(-1, True)\n    return w * x * torch.rsqrt(v + 1e-6)\n"
    )
    [reported] = advice(parse, text)
    assert (reported.span.start_line, reported.span.end_line, reported.form, reported.api) == (3, 3, "function", "norm")


def test_the_scores_of_an_attention_are_part_of_it(parse) -> None:
    attend = "def f(q, k, v):\n    p = (q @ k.transpose(-2, -1)).softmax(-1)\n    return p @ v\n"
    alone = "def g(q, k):\n    return q @ k.transpose(-2, -1)\n"
    assert [each.rule for each in advice(parse, f"import torch\n{attend}")] == ["attention"]
    assert [each.rule for each in advice(parse, f"import torch\n{alone}")] == ["transposed-matmul"]


NESTED = """import torch
import torch.nn.functional as F

def attend(q, k, v, b, n, c):
    scores = (q @ k.transpose(-2, -1)).softmax(-1)
    return (scores @ v).transpose(1, 2).reshape(b, n, c)

def gates(x, y):
    return F.one_hot((x * torch.sigmoid(x)).long(), 9).float()
"""


def test_a_shape_in_what_another_one_is_given_is_reported_too(parse) -> None:
    found = {each.rule for each in advice(parse, NESTED, "2.7.1")}
    assert found == {"attention", "confusion-transpose", "one-hot", "spelled-silu"}


def rewritten(text: str) -> set[tuple[str, int]]:
    """The kinds of `--affinity` that rewrite a text, with the lines of the code and of the definitions around it."""
    program = TrainingProgram({"main.py": text.encode()}, TORCH, "2.7.1", False)
    found = applicable(program, {"main.py": set(SHAPES)})
    return {(rule, line) for line, rule in found.get("main.py", ())}


# Shapes that advice names and that are left to people: a part of them is used elsewhere, a module computes it, or a
# condition decides its dtype or the order of its dimensions.
LEFT_TO_PEOPLE = (
    "return p @ v, p", "bqhd,bkhd", "if w.dtype in", "[:, :, :, 1::2]", "print(a)", "return x * gate, gate",
    "self.gate", "F.nll_loss(scores, y), scores", "nll_loss(x.log_softmax(-1), y)", "self.post(h) + h", "beta=0.5",
)  # fmt: skip


@pytest.mark.parametrize(
    "example",
    [pytest.param(each, id=f"{kind.id}-{at}") for kind in SHAPES.values() for at, each in enumerate(kind.examples)],
)
def test_advice_is_what_the_rewriting_finder_found(parse, example) -> None:
    """For every example of the catalogue, advice names what `--affinity` rewrites, at the same places, and no more."""
    found = advice(parse, example.source, "2.7.1")
    advised = {(each.rule, each.span.start_line) for each in found if each.rule in SHAPES}
    written = rewritten(example.source)
    assert {rule for rule, _ in advised & written} == {rule for rule, _ in written}
    assert advised <= written or any(text in example.before for text in LEFT_TO_PEOPLE)
