"""Later outputs of a kernel, held against the checked output of their operand set; and whether they follow its data.

A verdict in float64 on every call would take longer than the calls. So the first output of a set is checked whole and
kept, and later ones are compared with it: small ones whole, of large ones numbers whose places change from call to
call, now and then all. What differs from it gets the whole check, which alone decides.

Sets whose data equal those of the first share its reference. Another set needs a reference that is a function; a fixed
one, and a check of the caller's own, belong to the data of the first set.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from plugin.samples.correctness import Verifier, WrongResultError, make_verifier
from plugin.samples.kernel_call import KernelCall
from plugin.samples.leaves import raw_leaves
from plugin.samples.operand_data import (
    arrays,
    block_of,
    changed,
    copied,
    is_array,
    is_close,
    is_data,
    is_plain,
    is_same,
    spread,
)
from plugin.samples.poison import memories, memory_of
from plugin.timers.clock import time
from plugin.timers.rotation import Rotation, operand_bytes
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.rounding import worst

SPREAD_COUNT = 256
"""Numbers of a large output that are compared."""
SMALL_BYTES = 128 * 1024
"""An output up to this size is compared whole every time; that is no slower than to pick numbers of it."""
WHOLE_SHARE = 1 / 16
"""Share of the larger outputs that are compared whole."""
MOST_REFERENCES = 64
"""Operand sets of other data that get a reference of their own …"""
NEW_SETS = 4
"""Of them, that one row of checked calls may add."""
REFERENCES_S = 1.0
"""… within so many seconds of checking them first; a slower one is computed for one more set."""
OWN_OUTPUT_BYTES = 256 * 2**20
"""Of the checked outputs that are kept for them."""
WITNESS_SETS = 4
"""Sets that are looked at before they are first called: for equal data that stay equal, and as those whose arguments
are put back for checks, where a kernel writes to them.
"""
DATA_COUNT = 1024
"""Numbers of an operand that are compared to find out whether two sets hold equal data."""
LAST_BITS = 8
"""Part of the tolerance by which two runs of one kernel on the same data may differ: the order of a sum."""
BLOCK_BYTES = 4 * 2**20
"""Of an operand that are changed to see whether the output follows; all of it where that does not show."""

Call = Callable[[], Any]
"""Makes one call on the first operand set and returns its result."""


@dataclass(slots=True)
class _HeldSet:
    """One operand set whose outputs can be judged."""

    verifier: Verifier
    saved: list[Any]
    right: Any = None
    """Copy of an output that passed the whole check; None until there is one."""
    is_alike: bool = False
    """Whether its data were only taken to equal the first set's, by a part of them."""


class HeldOutputs:
    """What is known to be right for the operand sets of one kernel."""

    def __init__(
        self,
        call: KernelCall,
        rotation: Rotation,
        verifier: Verifier,
        output: Any,
        right: Any,
        saved: list[Any],
        before: list[Any],
    ) -> None:
        """`output`: of the first set, checked; `right`: a copy of it; `saved`: the set's arguments that the kernel
        writes to, `before`: a part of all others (`part_of`), both from before the first call.
        """
        self._before = before
        self._call = call
        self._rotation = rotation
        self._random = random.Random()
        self._first = _HeldSet(verifier, saved, right)
        self._sets: dict[int, _HeldSet | None] = {0: self._first}
        self._output_memory = memories(output)
        self._own_count = 0
        self.output_bytes = operand_bytes([right])
        """Bytes of one output."""
        self.set_up_s = 0.0
        """Seconds spent once per operand set: on its reference and the whole check of its first output."""
        self.flags: set[str] = set()
        """Doubts: lazy-result, sets-unchecked, operand-unread."""
        self.count = 0
        """Outputs that were held against a checked one."""
        others = range(1, len(rotation.sets))
        self._witnesses = self._random.sample(others, min(WITNESS_SETS, len(others)))
        """Sets that were looked at before the kernel could write to them."""
        if self.restores:
            for index in self._witnesses:
                self._sets[index] = self._new_set(index)
        else:
            self._witnesses = [index for index in self._witnesses if self._is_alike(index)]
        self._look_at_kind(output)

    @property
    def restores(self) -> bool:
        """Whether a result is only right after the arguments were put back or the caller's set-up ran."""
        return bool(self._call.mutates) or self._call.setup is not None

    @property
    def verifier(self) -> Verifier:
        """The verifier of the first set, with what was furthest from right in any."""
        verifiers = [held.verifier for held in self._sets.values() if held is not None]
        deviations = [each.worst_deviation for each in verifiers if each.worst_deviation is not None]
        if deviations:
            self._first.verifier.worst_deviation = worst(deviations)
        return self._first.verifier

    def pick_restorable(self) -> int:
        """Return a set at random whose arguments can be put back."""
        return self._random.choice([index for index, held in self._sets.items() if held is not None])

    def row(self, start: int, count: int) -> list[int]:
        """Return the sets of successive calls: those that are next; where sets hold other data, those with a reference
        in turn, and a few that may still get one.
        """
        turn = list(range(start, start + count))
        if self._own_count or None in self._sets.values():
            turn = [index for index, held in self._sets.items() if held is not None]
            turn += range(start, start + min(NEW_SETS, MOST_REFERENCES - self._own_count))
        return [turn[at % len(turn)] % len(self._rotation.sets) for at in range(count)]

    def restore(self, index: int) -> None:
        """Put the arguments of a set back that the kernel writes to."""
        held = self._sets[index]
        assert held is not None
        self._call.restore(self._rotation.sets[index], held.saved)

    def see_all(self, indices: Sequence[int], outputs: Sequence[Any], when: str) -> None:
        """Check the outputs of successive calls on the sets of those numbers, but those that a later call overwrote."""
        __tracebackhide__ = True
        overwritten: set[Any] = set()
        for index, output in zip(reversed(indices), reversed(outputs), strict=True):
            memory = memories(output)
            if not memory or not memory <= overwritten:
                self.see(index, output, when)
            overwritten |= memory

    def see(self, index: int, output: Any, when: str) -> None:
        """Check the output of a call on the set of that number; raises `WrongResultError` for a wrong one.

        Nothing is known of a set that has no reference.
        """
        __tracebackhide__ = True
        if index not in self._sets:
            with self._setting_up():
                self._sets[index] = self._new_set(index)
        held = self._sets[index]
        if held is None:
            return
        value = self._call.result(self._rotation.sets[index], output)
        self.count += 1
        self._look_at_kind(value)
        if held.right is not None and self._looks_right(value, held):
            return
        with self._setting_up() if held.right is None else nullcontext():
            if held.is_alike and not is_same(self._rotation.sets[index], self._rotation.sets[0]):
                self._sets[index] = held = self._other_set(index)
                if held is None:
                    return
            fix = "does the kernel write to its arguments? give their positions in mutates=" if self._is_written else ""
            where = when if index == 0 else f"{when}, operand set {index}"
            held.verifier.verify(value, self._call.labelled(where), fix=fix)
            if held.right is None:
                held.right = copied(value)

    @contextmanager
    def _setting_up(self) -> Iterator[None]:
        began_s = time.perf_counter()
        yield
        self.set_up_s += time.perf_counter() - began_s

    @property
    def _is_written(self) -> bool:
        """Whether the first set is no longer what it was before the first call, by a part of it; not where that holds
        NaN, which equals nothing.
        """
        before = self._before
        return bool(before) and is_same(before, before) and not is_same(part_of(self._rotation.sets[0]), before)

    def _looks_right(self, value: Any, held: _HeldSet) -> bool:
        at = self._random.random()
        is_whole = self.output_bytes <= SMALL_BYTES or self._random.random() < WHOLE_SHARE

        def pick(leaf: Any) -> Any:
            return leaf if is_whole else spread(leaf, SPREAD_COUNT, at)

        return is_same(value, held.right, pick) or is_close(value, held.right, held.verifier.tolerance, pick)

    def _look_at_kind(self, value: Any) -> None:
        if not all(map(is_plain, raw_leaves(value))):
            self.flags.add("lazy-result")

    def _new_set(self, index: int) -> _HeldSet | None:
        if self._is_alike(index):
            return _HeldSet(self._first.verifier, self._first.saved, self._first.right, is_alike=True)
        return self._other_set(index)

    def _is_alike(self, index: int) -> bool:
        """Whether a set holds the first one's data, by a part of them."""
        at = self._random.random()
        sets = self._rotation.sets
        return is_same(sets[index], sets[0], lambda leaf: spread(leaf, DATA_COUNT, at))

    def require_unwritten(self) -> None:
        """Raise `WrongResultError` where sets that held the first one's data no longer do."""
        __tracebackhide__ = True
        if not self.restores and not all(map(self._is_alike, self._witnesses)):
            raise WrongResultError(
                self._call.labelled(
                    "after timing: the kernel has written to its arguments; give their positions in mutates="
                )
            )

    def _other_set(self, index: int) -> _HeldSet | None:
        """Return a set of data of its own; None where nothing says what is right for it, or too many have been asked
        for.
        """
        __tracebackhide__ = True
        call, arguments = self._call, self._rotation.sets[index]
        if not callable(call.reference):
            self.flags.add("sets-unchecked")
            return None
        is_enough = self._own_count >= MOST_REFERENCES or self.set_up_s >= REFERENCES_S
        if self._own_count and (is_enough or (self._own_count + 1) * self.output_bytes > OWN_OUTPUT_BYTES):
            return None
        verifier = make_verifier(call.reference, None, call.tolerance, arguments, work=call.work)
        self._own_count += 1
        assert verifier is not None
        return _HeldSet(verifier, call.saved(arguments))

    # Does the output follow the data? -------------------------------------------------------------------------

    def challenge(self, make_call: Call, reference_s: float, *, is_cheap: bool) -> bool:
        """Change the first set's data, call, and hold the output against what it must be then; True if that was done.

        Every array argument is changed at once. Where the reference is a function, it says what the output must be: an
        output that is as before is wrong, another wrong one a doubt, because arguments may belong together. Where it is
        not, or takes longer than a second, an output that is as before is a doubt. Where calls `is_cheap`, each
        argument of a quarter of the bytes or more is also changed alone.
        """
        __tracebackhide__ = True
        right = self._first.right
        leaves = self._changeable()
        if not leaves or right is None:
            return False
        has_reference = callable(self._call.reference) and reference_s < REFERENCES_S
        outcomes = []
        for is_reversed in (False, True):
            outcome = self._changed_outcome(leaves, make_call, has_reference, is_reversed=is_reversed)
            outcomes.append(outcome)
            if outcome in ("follows", "differs"):
                break
            if outcome == "stale" and has_reference:
                raise WrongResultError(
                    self._call.labelled(
                        "after timing: with other numbers in the arguments the output is as before; does the kernel "
                        "keep a result?"
                    )
                )
        if "differs" in outcomes or ("stale" in outcomes and "follows" not in outcomes):
            self.flags.add("operand-unread")
        elif not has_reference and is_cheap and len(leaves) > 1 and "follows" in outcomes:
            large = [leaf for leaf in leaves if 4 * leaf.nbytes >= sum(each.nbytes for each in leaves)]
            if any(self._is_unread(leaf, make_call) for leaf in large):
                self.flags.add("operand-unread")
        return bool(set(outcomes) - {""})

    def read_bytes(self, make_call: Call) -> int:
        """Return the bytes of the first set's arguments that a call reads whole: three rows of one, picked at random,
        each change the output.

        0 for a kernel that does not give the same bits twice.
        """
        right = self._first.right
        if right is None or not is_same(make_call(), right):
            return 0
        return sum(
            int(leaf.nbytes)
            for leaf in self._changeable()
            if all(self._moves(block_of(leaf, 1, self._random.random()), make_call) for _ in range(3))
        )

    def _moves(self, block: Any, make_call: Call) -> bool:
        with changed(block, is_reversed=False) as is_changed:
            return is_changed and not is_same(make_call(), self._first.right)

    def _changeable(self) -> list[Any]:
        """Return the arrays among the first set's arguments that hold data, each piece of memory once; none that the
        kernel writes to.
        """
        seen = set(self._output_memory)
        leaves = []
        inputs = [each for at, each in enumerate(self._rotation.sets[0]) if at not in self._call.mutates]
        for leaf in arrays(inputs):
            if is_plain(leaf) and is_data(leaf):
                memory = memory_of(leaf)
                if memory is not None and memory not in seen:
                    seen.add(memory)
                    leaves.append(leaf)
        return leaves

    def _changed_outcome(
        self, leaves: Sequence[Any], make_call: Call, has_reference: bool, *, is_reversed: bool
    ) -> str:
        """Return follows, stale or differs; empty where the change tells nothing."""
        with ExitStack() as stack:
            blocks = [block_of(leaf, BLOCK_BYTES, self._random.random()) for leaf in leaves]
            is_changed = [stack.enter_context(changed(block, is_reversed=is_reversed)) for block in blocks]
            if not any(is_changed):
                return ""
            given = self._reference_now() if has_reference else None
            if has_reference and (given is None or self._fits(self._first.right, given)):
                return ""
            try:
                value = make_call()
            except Exception:  # data that the kernel refuses say nothing about the kernel
                return ""
            is_part = any(block.nbytes < leaf.nbytes for block, leaf in zip(blocks, leaves, strict=True))
            if has_reference and self._fits(value, given, is_whole=is_part):
                return "follows"
            is_as_before = is_same(value, self._first.right) or is_close(
                value, self._first.right, self._first.verifier.tolerance / LAST_BITS, lambda leaf: leaf
            )
            if is_as_before:
                return "stale"
            return "differs" if has_reference else "follows"

    def _reference_now(self) -> Any:
        """Return what the reference says to the data as they are; None where it holds NaN or refuses them."""
        self.restore(0)
        try:
            given = self._call.reference(*self._rotation.sets[0])
        except Exception:  # whatever a reference says to data that it was not made for
            return None
        return None if any(_holds_nan(leaf) for leaf in raw_leaves(given)) else given

    def _fits(self, value: Any, given: Any, *, is_whole: bool = False) -> bool:
        """Whether an output is right by a reference: by a part of its numbers, or else (`is_whole`: at once) by the
        whole check.
        """
        at = self._random.random()

        def pick(leaf: Any) -> Any:
            return spread(leaf, SPREAD_COUNT, at)

        tolerance = self._first.verifier.tolerance
        if not is_whole and is_close(value, given, tolerance, pick, of_typical=True):
            return True
        value = copied(value)
        self.restore(0)  # the reference is called again, with what the kernel was given
        try:
            verifier = make_verifier(
                self._call.reference, None, self._call.tolerance, self._rotation.sets[0], work=self._call.work
            )
            assert verifier is not None
            verifier.verify(value, "")
        except (InvalidValueError, WrongResultError):
            return False
        return True

    def _is_unread(self, leaf: Any, make_call: Call) -> bool:
        """Whether the output stays as it is when one argument alone is changed, a part and then all of it."""
        for most_bytes in (BLOCK_BYTES, math.inf):
            with changed(block_of(leaf, most_bytes, self._random.random()), is_reversed=False) as is_changed:
                try:
                    if not is_changed or not is_same(make_call(), self._first.right):
                        return False
                except Exception:  # as above
                    return False
        return True


def part_of(arguments: Sequence[Any]) -> list[Any]:
    """Return copies of numbers of every array, to see later whether they changed; nothing where one has no such."""
    try:
        return [copied(spread(leaf, DATA_COUNT, 0.5)) for leaf in arrays(arguments)]
    except (NotImplementedError, RuntimeError, TypeError, ValueError):  # a layout of its own
        return []


def _holds_nan(leaf: Any) -> bool:
    try:
        return bool((leaf != leaf).any()) if is_array(leaf) else bool(leaf != leaf)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
