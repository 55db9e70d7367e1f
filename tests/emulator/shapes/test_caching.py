"""The model of the caching allocator."""

import random

from gpu2npu.emulator.shapes.caching import CachingAllocator, rounded

MIB = 1 << 20


def test_sizes_are_rounded_with_32_bytes_more():
    assert [rounded(size) for size in (1, 480, 481, 512, MIB)] == [512, 512, 1024, 1024, MIB + 512]


def test_small_blocks_share_a_segment_and_large_ones_have_their_own():
    allocator = CachingAllocator(1 << 40)
    parts = [allocator.allocate(1000) for _ in range(1000)]
    assert allocator.reserved == 2 * MIB
    large = allocator.allocate(3 * MIB)
    assert allocator.reserved == 22 * MIB
    allocator.allocate(11 * MIB)
    assert allocator.reserved == 22 * MIB  # it is cut from the segment of 20 MiB
    allocator.allocate(30 * MIB)
    assert allocator.reserved == 54 * MIB
    allocator.free(large)
    for part in parts:
        allocator.free(part)
    allocator.empty()
    assert allocator.reserved == 52 * MIB


def test_free_neighbours_are_merged_whatever_the_order():
    allocator = CachingAllocator(1 << 40)
    random.seed(0)
    parts = [allocator.allocate(random.randrange(1, 8 * MIB)) for _ in range(300)]
    random.shuffle(parts)
    for part in parts:
        allocator.free(part)
    assert allocator.allocated == 0
    allocator.empty()
    assert allocator.reserved == 0


def test_cached_segments_are_given_back_where_memory_ends():
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.allocate(60 * MIB))
    allocator.allocate(70 * MIB)
    assert allocator.reserved == 72 * MIB
    assert allocator.peak_reserved == 72 * MIB
