"""Record what the code answers, or compare it with what it answered before: the frozen answers of tests/frozen.

    python scripts/checks/freeze_answers.py compare [FAMILY …] [--sample] [--question TEXT] [--limit N]
    python scripts/checks/freeze_answers.py record FAMILY …

`compare` prints every difference by question and exits 1 when one is not allowed
(docs/development/decisions/0010-frozen-answers.md).
`record` writes the answers of today's code; that is for new questions only, never to make a test pass.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "frozen")]  # the checkout this script stands in

import frozen_asker  # noqa: E402
import frozen_catalog  # noqa: E402
import frozen_compare  # noqa: E402
import frozen_store  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    families = given.families or list(frozen_catalog.FAMILIES)
    if given.command == "record":
        for family in families:
            _record(family)
        return 0
    return int(sum([_compare(family, given) for family in families]) > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "compare"):
        command = commands.add_parser(name)
        command.add_argument("families", nargs="*", metavar="FAMILY", choices=[*frozen_catalog.FAMILIES, []])
    command.add_argument("--sample", action="store_true", help="only the questions that `make test` asks")
    command.add_argument("--question", default="", metavar="TEXT", help="only questions whose id contains the text")
    command.add_argument("--limit", type=int, default=20, metavar="N", help="questions shown per family (default: 20)")
    return parser


def _record(family: str) -> None:
    started = time.perf_counter()
    questions = frozen_catalog.questions(family)
    path = frozen_store.write_answers(family, ((question.id, frozen_asker.ask(question)) for question in questions))
    spent_s = time.perf_counter() - started
    print(f"{family}: {len(questions)} answers, {path.stat().st_size / 1e3:.0f} kB, {spent_s:.1f} s", flush=True)


def _compare(family: str, given: argparse.Namespace) -> int:
    """Print the differences of one family and return how many questions differ without being allowed to."""
    started = time.perf_counter()
    frozen, allowed = frozen_store.read_answers(family), frozen_store.allowed_differences()
    questions = frozen_catalog.sample(family) if given.sample else frozen_catalog.questions(family)
    chosen_questions = [question for question in questions if given.question in question.id]
    differing = permitted = 0
    for asked_question in chosen_questions:
        if asked_question.id not in frozen:
            differences = ["no answer is frozen: record the family with the code of the commit that added the question"]
        else:
            differences = frozen_compare.differences(frozen[asked_question.id], frozen_asker.ask(asked_question))
        if differences and asked_question.id in allowed:
            permitted += 1
        elif differences:
            differing += 1
            if differing <= given.limit:
                print(
                    "\n    ".join(
                        [
                            asked_question.id,
                            *differences[:12],
                            *([f"… and {len(differences) - 12} more"] if differences[12:] else []),
                        ]
                    )
                )
    spent_s = time.perf_counter() - started
    print(
        f"{family}: {len(chosen_questions)} asked, {differing} differ, {permitted} allowed to, {spent_s:.1f} s",
        flush=True,
    )
    return differing


if __name__ == "__main__":
    sys.exit(main())
