"""A rank ends with its own exit code and all its output, however it ends (`docs/many-cards.md`)."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # all of them: the first runs the stories of all


@pytest.fixture(scope="module")
def stories(tmp_path_factory, run, torch_python):
    ran = run(*torch_python, Path(__file__).with_name("ends.py"), tmp_path_factory.mktemp("ends"), timeout=1200)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.fixture
def ended(stories):
    """The exit codes of a case's two ranks, after their last lines and their words have been looked at."""

    def call(case, *words):
        codes, outputs = zip(*stories[case], strict=True)
        for rank, output in enumerate(outputs):
            assert "terminate called" not in output
            assert codes[rank] < 0 or f"rank {rank} left" in output.splitlines()
        for rank, expected in words:
            assert expected in outputs[rank], outputs[rank]
        return codes

    return call


def test_destroyed_with_collectives_in_flight(ended):
    refused = "Default process group has not been initialized"
    assert ended("destroyed", (0, refused), (1, refused), (0, "got 200"), (1, "got 200")) == (0, 0)


def test_left_with_collectives_in_flight(ended):
    assert ended("left") == (0, 0)


def test_a_message_arrives_though_its_sender_leaves_a_pending_receive(ended):
    assert ended("left_with_a_message_on_its_way", (1, "rank 1 got 2000000")) == (0, 0)


def test_an_exception_in_one_rank(ended):
    assert ended("raised", (0, "DistBackendError"), (1, "KeyError: 'rank 1 gives up'")) == (1, 1)


def test_an_exit_of_one_rank(ended):
    assert ended("exited", (0, "DistBackendError")) == (1, 3)


def test_ddp_raises_when_a_rank_is_killed(ended):
    assert ended("killed_under_ddp", (0, "rank 1 has ended")) == (1, -9)


def test_sigterm_with_a_handler(ended):
    assert ended("terminated_with_a_handler") == (5, 5)


def test_a_forked_child_leaves_its_parents_group_alone(ended):
    refused = "child: HCCL barrier failed on rank 0: a forked process cannot use"
    assert ended("forked_a_child", (0, refused)) == (0, 0)


def test_threads_and_atexit_handlers_of_the_script_may_use_the_group(ended):
    assert ended("worked_in_a_thread_and_at_exit", (0, "rank 0 worked\n"), (1, "rank 1 worked at exit")) == (0, 0)


def test_a_callback_may_wait_for_a_collective(ended):
    assert ended("waited_in_a_callback", (0, "rank 0 got 400"), (1, "rank 1 got 400")) == (0, 0)


def test_destroying_after_errors_waits_for_nobody_who_cannot_come(ended):
    """Errors are over when the group is destroyed, which has half an hour for what is in flight."""
    closed, left = "rank 1 has closed its connections", "rank 1 has ended the process group"
    expected = {
        "raise_everywhere": "'rank 0 gives up'",
        "raise_with_collectives_in_flight": "'rank 0 gives up'",
        "one_raises_before_a_collective_that_is_awaited": f"HCCL allreduce failed on rank 0: {closed}",
        "one_raises_before_a_collective_in_flight": "'rank 0 gives up'",
        "receives_without_senders": "",  # the other rank has gone, or has not
        "sends_without_receivers": "'rank 0 gives up'",
        "a_message_that_does_not_fit": "'rank 0 gives up'",
        "a_barrier_and_a_send_that_wait_for_each_other": "'rank 0 gives up'",
        "a_collective_waits_for_one_that_waits_to_send": f"HCCL allreduce failed on rank 0: {left}",
        "a_receive_waits_for_one_that_waits_in_a_collective": f"HCCL recv failed on rank 0: {left}",
        "a_thread_waits_in_a_collective": "'rank 0 gives up'",
        "barrier": "HCCL barrier failed on rank 0: ",
    }
    words = [(0, f"rank 0 {name}: {error}") for name, error in expected.items()]
    assert ended("destroyed_after_errors", *words) == (0, 0)


def test_ranks_that_wait_for_each_other_at_their_ends(ended):
    words = "what was in flight failed: HCCL"
    assert ended("left_waiting_for_each_other", (0, f"{words} barrier"), (1, f"{words} send")) == (1, 1)
