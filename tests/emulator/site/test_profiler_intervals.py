import itertools

from hypothesis import given
from hypothesis import strategies as st
from torch_npu.profiler import intervals

ANY = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: tuple(sorted(pair))), max_size=8)


def moments(found):
    return {moment for start, end in found for moment in range(start, end)}


@given(ANY)
def test_a_union_covers_what_its_parts_cover_and_has_gaps_between(parts):
    merged = intervals.union(parts)
    assert moments(merged) == moments(parts)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(merged))
    assert intervals.total(merged) == len(moments(parts))


@given(ANY, ANY)
def test_a_difference_is_that_of_the_moments(ours, others):
    assert moments(intervals.difference(ours, others)) == moments(ours) - moments(others)


@given(ANY, st.integers(0, 40), st.integers(0, 40))
def test_clipping_keeps_what_lies_in_the_window(parts, start, end):
    assert moments(intervals.clipped(parts, start, end)) == moments(parts) & set(range(start, end))
