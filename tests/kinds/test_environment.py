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
