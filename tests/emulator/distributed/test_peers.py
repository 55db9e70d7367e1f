"""The end of a rank is the end of its job, with a sentence that names it."""

import json
import signal
from pathlib import Path


def test_the_others_learn_which_rank_died(run, torch_python, tmp_path):
    ran = run(*torch_python, Path(__file__).with_name("faults.py"), tmp_path)
    assert ran.returncode == 0, ran.stderr
    stories = json.loads(ran.stdout.splitlines()[-1])
    for way, code in (("exception", 1), ("exit", 3), ("kill", -signal.SIGKILL)):
        messages = {rank: words for how, rank, words in stories if how == way}
        assert messages.pop("codes") == [0, code, 0]  # the others left, and by themselves
        assert set(messages) == {0, 2}
        for rank, words in messages.items():
            assert f"failed on rank {rank}: rank 1 has ended" in words
        assert messages[0].startswith("HCCL allreduce")
        assert messages[2].startswith("HCCL recv")
