"""Work with room for deep recursion, in processes that are forked meanwhile."""

import multiprocessing
import threading

import pytest

from gpu2npu.deep_stack import with_deep_stack


def depth(left: int) -> int:
    return 0 if left == 0 else 1 + depth(left - 1)


def test_recursion_goes_deep() -> None:
    assert with_deep_stack(lambda: depth(20_000)) == 20_000


def test_a_process_forked_while_a_thread_starts_can_start_one_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, forked = threading.Event(), threading.Event()
    real = threading.stack_size

    def slow(*size: int) -> int:
        if threading.current_thread() is starter and not starting.is_set():
            starting.set()
            forked.wait(0.5)  # the fork waits for this, unless it can come in between
        return real(*size)

    starter = threading.Thread(target=lambda: with_deep_stack(lambda: None))
    monkeypatch.setattr(threading, "stack_size", slow)
    starter.start()
    starting.wait()
    child = multiprocessing.get_context("fork").Process(target=with_deep_stack, args=(int,))
    child.start()
    forked.set()
    child.join(60)
    ended = child.exitcode
    child.kill()
    starter.join()
    assert ended == 0
