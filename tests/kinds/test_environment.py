"""Rules for environment variables: families whose names are known."""

from __future__ import annotations

import pytest

RULES = [
    {
        "id": "fast",
        "match": {"environment": "FAST_*", "known": ["FAST_CACHE_SIZE", "FAST_LOG_LEVEL"]},
        "then": {"report": {"kind": "unsupported", "message": "No such variable."}},
    },
    {
        "id": "like",
        "match": {"environment": "SLOW_*", "known": ["SLOW_VISIBLE_CARDS"], "likeness": 80},
        "then": {"report": {"kind": "unsupported", "message": "No such variable."}},
    },
]


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("FAST_CASHE_SIZE", "Look whether FAST_CACHE_SIZE is meant."),
        ("FAST_QZ", "No such variable."),
        ("SLOW_VISIBLE_CARD", "Look whether SLOW_VISIBLE_CARDS is meant."),
        ("FAST_LOG_LEVEL", None),
        ("SLOW_OF_MINE", None),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['{}'] = '1'\n",
        "import os\nos.environ.setdefault('{}', '1')\n",
        "env = {{'{}': '1'}}\n",
        "run = dict(env, {}='1')\n",
        "command = '{}=1 python train.py'\n",
    ],
)
def test_a_name_that_the_family_has_not(migrate_with, text: str, name: str, reported: str | None) -> None:
    found = migrate_with(RULES, text.format(name)).findings
    assert len(found) == (reported is not None)
    assert reported is None or found[0].message.endswith(reported)


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['FAST_OWN'] = '1'\nprint(os.environ.get('FAST_OWN'))\n",
        "import os\nprint(os.getenv('FAST_OWN'), os.environ['FAST_OWN'])\n",
        "names = ['FAST_OWN']\nif error == 'FAST_OWN':\n    pass\n",
    ],
)
def test_a_name_that_the_program_reads_or_only_names(migrate_with, text: str) -> None:
    assert migrate_with(RULES, text).findings == ()


@pytest.mark.parametrize(
    ("text", "is_late"),
    [
        ("x = torch.ones(2).cuda()\n{}", True),
        ("x = torch.ones(2, device='npu:0')\nif x.sum():\n    {}", True),
        ("def f(x):\n    x.to('cuda')\n    {}", True),
        ("def f(x):\n    x.to('cuda')\n\n\n{}", False),
        ("x = torch.ones(2).cuda()\n\n\ndef f(x):\n    {}", False),
        ("if torch.cuda.is_available():\n    {}\nx = torch.ones(2).cuda()", False),
    ],
)
def test_a_variable_that_is_read_at_the_first_use_of_the_device(migrate_with, text: str, is_late: bool) -> None:
    rule = {"id": "fast", "match": {"environment": "FAST_POOL", "set_before": ["torch.npu"]}, "then": {"keep": True}}
    setting = "os.environ['FAST_POOL'] = '1'"
    found = migrate_with([rule], f"import os\nimport torch\n{text.format(setting)}\n").findings
    message = "It is read as the device is first used, which is further up: set it before that."
    assert [each.message for each in found] == [message] * is_late
