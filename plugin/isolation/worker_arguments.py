"""With which arguments a worker is started: the user's own, so that it collects the same tests by the same names."""

from __future__ import annotations

import pytest


def worker_arguments(config: pytest.Config) -> list[str]:
    """Return the arguments of a worker of this pytest: the user's own, behind the rootdir and the ini file found here.

    From the user's arguments alone a worker may find others: pytest takes every word of them that is an existing path for a
    test's, and the results database of `--roofline-db FILE` exists by the time a worker starts. Ours go first: whatever stands
    last on a command line may be an option that takes the next word.
    """
    invocation = config.invocation_params
    ini = [] if config.inipath is None else ["-c", str(config.inipath)]
    plugins = [part for name in invocation.plugins or () for part in ("-p", str(name))]
    return [f"--rootdir={config.rootpath}", *ini, *map(str, invocation.args), *plugins]


def why_not_collected(config: pytest.Config, worker_rootdir: str) -> str:
    """Return why a worker may know a test by another name, or not at all, although its files could be collected."""
    if worker_rootdir == str(config.rootpath):
        return "it depends on something that differs between the two"
    return (
        f"its names begin at another folder, rootdir {worker_rootdir} instead of {config.rootpath}: put a pytest.ini beside "
        "the tests, or measure in pytest's own process with --roofline-isolate none"
    )
