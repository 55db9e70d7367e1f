"""The search for the largest batch that fits."""

import pytest

from gpu2npu.forecast import runs, variants
from gpu2npu.forecast.plan import make

USABLE = 30_000
MEMORY = {  # of models whose memory grows with the batch in other ways than a line, and of one that does
    "line": lambda batch: 1_000 + 300 * batch,
    "large batches": lambda batch: 1_000 + 7 * batch,
    "masks of each pair of samples": lambda batch: 2_000 + 40 * batch + 30 * batch**2,
    "blocks are rounded up": lambda batch: 1_000 + 2_048 * -(-110 * batch // 2_048),
    "another kernel for large batches": lambda batch: 1_000 + (250 if batch < 20 else 330) * batch,
    "the cache is given back near the end": lambda batch: min(900 * batch, 29_000) if batch < 70 else 420 * batch,
    "buffers that do not grow from some size on": lambda batch: 6_000 * min(batch, 3) + 150 * batch,
}


def search(memory, first):
    """The batches that are run from a first one, with what they need."""
    tried = {first: memory(first) if memory(first) <= USABLE else None}
    while len(tried) <= runs._MOST_BATCHES and (batch := variants.next_batch(tried, USABLE)) is not None:
        assert batch not in tried, tried
        tried[batch] = memory(batch) if memory(batch) <= USABLE else None
    return tried


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
@pytest.mark.parametrize("first", [1, 4, 16, 1024])
def test_the_batch_that_is_found_fits_and_the_next_does_not(memory, first):
    tried = search(memory, first)
    largest, too_large = variants.largest_batch(tried), variants.smallest_too_large(tried)
    assert memory(largest) <= USABLE < memory(too_large)
    apart = 1.05 if len(tried) > runs._MOST_BATCHES else 1.01
    assert largest < too_large <= max(largest + 1, largest * apart)


def test_a_model_that_never_fits_has_the_batch_0():
    tried = search(lambda batch: USABLE + batch, 20)
    assert list(tried) == [20, 5, 1]
    assert variants.largest_batch(tried) == 0


def test_a_batch_that_costs_nothing_has_no_largest():
    tried = search(lambda batch: 100, 8)
    assert list(tried) == [8, 16, 32, 64, 128, 256]
    assert variants.largest_batch(tried) is None
    assert variants.smallest_too_large(tried) is None


@pytest.mark.parametrize("exit_code", [0, 2])
def test_whether_a_run_fits_that_used_no_npu_is_not_known(exit_code: int) -> None:
    assert make(["python", "t.py"], [], exit_code)["fits"] is None
