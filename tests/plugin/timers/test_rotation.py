from __future__ import annotations

import numpy as np
import pytest

from plugin.timers.rotation import Rotation, build_rotation, operand_bytes, sets_needed
from roofline_model.core.errors import UnsupportedError


def test_bytes_of_nested_operands_count_each_array_once():
    array = np.zeros(100, dtype=np.float32)
    assert operand_bytes(((array, array), {"scale": np.zeros(3)}, "text", 5, None, 2.5)) == 400 + 24


@pytest.mark.parametrize(
    ("size", "cache", "sets"), [(1024, 4096, 8), (1000, 4096, 9), (10_000, 4096, 1), (1024, None, 1), (0, 4096, 1)]
)
def test_sets_cover_twice_the_cache(size, cache, sets):
    assert sets_needed(size, cache) == sets
    if cache and size:
        assert sets * size >= 2 * cache


def test_schedule_continues_where_the_last_one_ended():
    rotation = Rotation(((0,), (1,), (2,)))
    assert rotation.schedule(2, 4) == [(2,), (0,), (1,), (2,)]


def test_first_set_is_reused_and_the_others_are_made_in_order():
    made = []
    rotation = build_rotation(lambda i: made.append(i) or (i,), (0,), 3, None)
    assert made == [1, 2]
    assert rotation.sets == ((0,), (1,), (2,))


def test_too_much_memory_or_too_many_sets_is_refused_with_the_amount():
    array = np.zeros(1024)
    with pytest.raises(UnsupportedError, match=r"8.192 kB = 81.92 kB.*102.4 kB"):
        build_rotation(lambda i: (array,), (array,), 10, 100 * 1024)
    with pytest.raises(UnsupportedError, match="measure it warm"):
        build_rotation(lambda i: (array,), (array,), 50_000, None)


def test_sets_that_share_memory_are_no_rotation():
    zeros = np.zeros(1000)
    assert Rotation(((zeros,), (zeros,), (zeros[:500],))).working_set_bytes == 8000
    assert Rotation(((zeros,), (zeros.copy(),))).defeats(8000)
    assert not Rotation(((zeros,), (zeros,))).defeats(8000)
    big = np.zeros((4, 1000))
    assert Rotation(tuple((row,) for row in big)).working_set_bytes == 32_000  # pieces of one buffer are distinct
    assert operand_bytes((big[:, :500], big[:, 500:], big[::-1])) == 32_000


def test_an_expanded_array_counts_as_what_it_stands_on():
    assert operand_bytes((np.broadcast_to(np.zeros(1), (4096, 4096)),)) == 8
    torch = pytest.importorskip("torch")
    assert operand_bytes((torch.zeros(1).expand(4096, 4096),)) == 4
    tensor = torch.zeros(1000)
    assert operand_bytes((tensor, tensor.view(10, 100), tensor.clone())) == 8000
