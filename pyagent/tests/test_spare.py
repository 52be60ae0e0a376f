"""The worker that is made ahead: taken when it is there, never missed when it is not."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from host import Host

LIMIT = 30.0


def children(parent: int) -> set[int]:
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != b"Z":
            found.add(int(name))
    return found


def worker(host: Host) -> int:
    return int(host.call("ping_request").header["worker_pid"])


def zygote_and_spare(host: Host) -> tuple[int, int]:
    """Wait until there is a spare; the zygote is the older of the two."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        others = sorted(children(host.process.pid) - {worker(host)})
        if len(others) == 2:
            return others[0], others[1]
        time.sleep(0.02)
    raise AssertionError("no spare worker is made")


@pytest.fixture
def ready(fresh: Callable[..., Host]) -> Host:
    host = fresh()
    host.start()
    return host


@pytest.mark.parametrize("end", ["reset", "death", "interrupt"])
def test_the_spare_is_the_next_worker(ready: Host, end: str) -> None:
    ready.run("x = 1\nopen('f', 'w').close()")
    _, spare = zygote_and_spare(ready)
    if end == "reset":
        ready.reset()
    elif end == "death":
        assert ready.run("import os\nos._exit(0)").death["cause"] == "self"
    else:
        code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"
        assert ready.run(code, timeout=0.3, grace=0.3).death["cause"] == "interrupt"
    assert ready.run("x").error == "NameError"
    assert worker(ready) == spare
    assert ready.value("import os; os.getcwd()") == repr(str(ready.workspace))
    assert zygote_and_spare(ready)[1] != spare


def test_two_workers_do_not_draw_the_same_numbers(ready: Host) -> None:
    drawn = set()
    for _ in range(3):
        zygote_and_spare(ready)
        drawn.add(ready.value("import random; random.random()"))
        ready.reset()
    assert len(drawn) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_spare_that_was_killed_or_stopped_is_not_missed(ready: Host, number: int) -> None:
    zygote, spare = zygote_and_spare(ready)
    os.kill(spare, number)
    for _ in range(2):
        ready.reset()
        assert ready.value("1 + 1") == "2"
    assert zygote in children(ready.process.pid)
    zygote_and_spare(ready)


def test_an_interrupted_cell_does_not_cost_the_spare(ready: Host) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '60'])\nwhile True: pass"
    for _ in range(2):
        _, spare = zygote_and_spare(ready)
        assert ready.run(code, timeout=0.4).error == "KeyboardInterrupt"
        assert zygote_and_spare(ready)[1] == spare


def test_the_spare_ends_with_the_zygote(ready: Host) -> None:
    zygote, spare = zygote_and_spare(ready)
    os.kill(zygote, signal.SIGKILL)
    end = time.monotonic() + LIMIT
    while spare in children(ready.process.pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert spare not in children(ready.process.pid)
    ready.reset()
    assert ready.value("1 + 1") == "2"
