"""How cells and workers end: exits, deaths, interrupts, memory, resets."""

from __future__ import annotations

import os
import signal
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from host import Host


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# sys.exit


@pytest.mark.parametrize(
    ("code", "status", "number", "message"),
    [
        ("import sys\nsys.exit()", "ok", None, ""),
        ("import sys\nsys.exit(0)", "ok", None, ""),
        ("exit()", "ok", None, ""),
        ("quit()", "ok", None, ""),
        ("raise SystemExit", "ok", None, ""),
        ("import sys\nsys.exit(3)", "error", 3, "sys.exit(3)"),
        ("import sys\nsys.exit(-1)", "error", 255, "sys.exit(-1)"),
        ("import sys\nsys.exit('bad input')", "error", 1, "bad input"),
        ("import sys\nsys.exit(True)", "error", 1, "sys.exit(True)"),
        ("import sys\nsys.exit(10**30)", "error", 0, "sys.exit"),
    ],
)
def test_sys_exit(host: Host, code: str, status: str, number: int | None, message: str) -> None:
    result = host.run("keep = 'kept'\nprint('bye')\n" + code + "\nprint('never')")
    assert (result.status, result.stdout, result.exit_code) == (status, "bye\n", number)
    assert message in result.message
    assert host.value("keep") == "'kept'"


def test_exit_of_a_thread_is_not_the_end(host: Host) -> None:
    code = "import threading, sys\nt = threading.Thread(target=lambda: sys.exit(9))\nt.start(); t.join()\nprint('fine')"
    assert host.run(code).stdout == "fine\n"


# Deaths


@pytest.mark.parametrize(
    ("code", "number", "exit_code"),
    [
        ("import os\nos._exit(5)", 0, 5),
        ("import os\nos._exit(0)", 0, 0),
        ("import os\nos.abort()", signal.SIGABRT, 0),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", signal.SIGKILL, 0),
        ("import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(5)", signal.SIGTERM, 0),
        ("import ctypes\nctypes.string_at(0)", signal.SIGSEGV, 0),
        (
            "import signal, os\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')",  # noqa: E501
            signal.SIGPIPE,
            0,
        ),
        ("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass", signal.SIGKILL, 0),
    ],
)
def test_the_exact_end_of_a_worker_is_told(host: Host, code: str, number: int, exit_code: int) -> None:
    host.run("x = 1")
    result = host.run("print('going')\n" + code)
    assert (result.status, result.stdout, result.header["restarted"]) == ("died", "going\n", True)
    death = result.death
    assert (death["signal"], death["exit_code"], death["cause"], death["oom"]) == (number, exit_code, "self", False)
    assert host.value("'x' in globals()") == "False"


def test_a_crash_shows_the_python_line(host: Host) -> None:
    result = host.run("import ctypes\ndef crash():\n    ctypes.string_at(0)\n\ncrash()")
    assert "string_at" in result.stderr
    assert "line 3 in crash" in result.stderr


def test_recovery_is_quick_with_libraries_loaded(host: Host) -> None:
    times = []
    for _ in range(5):
        host.run("import os\nos._exit(1)")
        started = time.monotonic()
        host.value("1 + 1")
        times.append(time.monotonic() - started)
    assert min(times) < 0.5


def test_a_worker_that_dies_between_cells(host: Host) -> None:
    host.run(
        "import threading, os, time\nthreading.Thread(target=lambda: (time.sleep(0.2), os._exit(4))).start()\nx = 1"
    )
    time.sleep(0.6)
    assert host.value("'x' in globals()") == "False"


def test_children_of_a_dead_worker_are_ended(host: Host) -> None:
    pid = int(
        host.value("import subprocess\np = subprocess.Popen(['sleep', '7777'], start_new_session=True)\np.pid") or 0
    )
    assert alive(pid)
    host.run("import os\nos._exit(1)")
    host.value("1")
    assert not alive(pid)


# Interrupts


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    n += 1",
        "import time\ntime.sleep(60)",
        "import threading\nlk = threading.Lock()\nlk.acquire()\nlk.acquire()",
        "import asyncio\nasync def f():\n    while True:\n        await asyncio.sleep(0.05)\nasyncio.run(f())",
        "import asyncio\nwhile True:\n    await asyncio.sleep(0.05)",
        "class S:\n    def __repr__(self):\n        while True: pass\nS()",
        "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
        "import os\nr, w = os.pipe()\nos.read(r, 1)",
        "import subprocess\nsubprocess.run(['sleep', '60'])",
        "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\nwhile True: pass",  # noqa: E501
        "while True: print('A' * 4096)",
    ],
)
def test_an_interrupt_keeps_the_state(host: Host, code: str) -> None:
    host.run("n = 0\nheld = 7")
    result = host.run(code, timeout=0.4, grace=10)
    assert (result.status, result.error) == ("error", "KeyboardInterrupt")
    assert (result.header["interrupted"], result.header["restarted"]) == (True, False)
    assert result.seconds < 8
    assert host.value("held") == "7"
    clean = host.run("print('ok')")
    assert (clean.status, clean.stdout, clean.stderr, clean.header["interrupted"]) == ("ok", "ok\n", "", False)


@pytest.mark.parametrize(
    "code",
    [
        "import time\nwhile True:\n    try:\n        time.sleep(0.2)\n    except BaseException:\n        pass",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)",
        "import time\ntry:\n    time.sleep(60)\nfinally:\n    try: time.sleep(60)\n    finally: time.sleep(60)",
        "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'p', b's', 400_000_000)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(60)",
    ],
)
def test_the_ladder_ends_with_a_kill(host: Host, code: str) -> None:
    started = time.monotonic()
    result = host.run(code, timeout=0.3, grace=0.6)
    assert result.status == "died"
    assert (result.death["cause"], result.death["signal"]) == ("interrupt", signal.SIGKILL)
    assert result.header["interrupted"] is True
    assert 0.8 < time.monotonic() - started < 8
    assert host.value("1 + 1") == "2"


def test_slow_clean_up_within_the_grace_is_waited_for(host: Host) -> None:
    code = "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    time.sleep(0.2)\n    print('cleaned')"
    result = host.run(code, timeout=0.3, grace=8)
    assert (result.status, result.stdout, result.header["interrupted"]) == ("ok", "cleaned\n", True)


def test_children_of_an_interrupted_cell_are_ended_and_older_ones_not(host: Host) -> None:
    older = int(host.value("import subprocess\nold = subprocess.Popen(['sleep', '7776'])\nold.pid") or 0)
    time.sleep(0.1)
    result = host.run("subprocess.run('sleep 7777 & sleep 7778 & wait', shell=True)", timeout=0.5, grace=8)
    assert result.error == "KeyboardInterrupt"
    assert alive(older)
    found = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"777" in _read(path)]
    mine = [path for path in found if _read(path) in (b"sleep\x007777\x00", b"sleep\x007778\x00")]
    assert mine == []
    host.run("old.kill()")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_threads_of_an_interrupted_cell_are_ended_and_older_ones_not(host: Host) -> None:
    """Nothing of a cell goes on after its time limit; what earlier cells started does."""
    host.run(
        "import threading, time\n"
        "ticks = {}\n"
        "def tick(name):\n"
        "    while True:\n"
        "        ticks[name] = ticks.get(name, 0) + 1\n"
        "        time.sleep(0.01)\n"
        "threading.Thread(target=tick, args=('old',), daemon=True).start()"
    )
    result = host.run(
        "for n in range(3): threading.Thread(target=tick, args=(f'new{n}',)).start()\nwhile True: time.sleep(0.1)",
        timeout=0.5,
        grace=8,
    )
    assert (result.error, result.status) == ("KeyboardInterrupt", "error")
    seen = host.value(
        "a = dict(ticks); time.sleep(0.3); sorted(n for n in ticks if ticks[n] != a[n]), threading.active_count()"
    )
    assert seen == "(['old'], 2)"


def test_an_interrupt_for_another_cell_is_not_delivered(host: Host) -> None:
    first = host.begin("1")
    host.finish(first)
    assert host.call("interrupt_request", cell=first, grace_ms=100).header["delivered"] is False
    second = host.begin("import time\ntime.sleep(0.5)\n'whole'")
    assert host.call("interrupt_request", cell=first, grace_ms=100).header["delivered"] is False
    result = host.finish(second)
    assert (result.result, result.header["interrupted"]) == ("'whole'", False)


def test_interrupts_at_the_very_end_never_reach_the_next_cell(host: Host) -> None:
    for delay in range(40):
        request = host.begin("import time\ntime.sleep(0.002)")
        time.sleep(0.001 + delay * 0.0001)
        asked = host.send("interrupt_request", cell=request, grace_ms=5000)
        following = host.finish(request)
        assert following.status in ("ok", "error")
        host.wait(asked)
        result = host.run("sum(range(1000))")
        assert (result.status, result.result) == ("ok", "499500")


def test_a_handler_of_the_users_lasts_for_its_cell(host: Host) -> None:
    code = "import signal, time\nhits = []\nsignal.signal(signal.SIGINT, lambda *a: hits.append(1))\ntime.sleep(1)\nlen(hits)"  # noqa: E501
    result = host.run(code, timeout=0.3, grace=20)
    assert (result.status, result.result) == ("ok", "1")
    assert host.run("time.sleep(30)", timeout=0.3, grace=10).error == "KeyboardInterrupt"


def test_alarms_work_and_children_signals_may_be_ignored(host: Host) -> None:
    code = """
        import signal, time
        def on(s, f): raise TimeoutError('user alarm')
        signal.signal(signal.SIGALRM, on)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try: time.sleep(10)
        except TimeoutError as e: print('caught', e)
    """
    assert host.run(textwrap.dedent(code)).stdout == "caught user alarm\n"
    assert (
        host.value(
            "import subprocess\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nsubprocess.run(['true']).returncode"
        )
        == "0"
    )
    assert host.value("_ = signal.signal(signal.SIGCHLD, signal.SIG_DFL)\nsubprocess.run(['false']).returncode") == "1"


# Memory


@pytest.fixture
def small(fresh: Callable[..., Host]) -> Host:
    host = fresh()
    assert host.start(memory_bytes=400 << 20)["status"] == "ok"
    return host


@pytest.mark.parametrize(
    "bomb",
    [
        "chunks = []\nwhile True:\n    chunks.append(bytearray(5_000_000))",
        "x = bytearray(10 ** 15)",
        "s = 'ab' * (10 ** 14)",
        "a = [0]\nwhile True:\n    a = a + a",
        "import mmap\nm = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
        "d = {}\nwhile True:\n    d[len(d)] = str(len(d)) * 100",
    ],
)
def test_memory_bombs_become_errors_with_the_state_kept(small: Host, bomb: str) -> None:
    small.run("keep = 'k'")
    result = small.run(bomb)
    assert result.status == "error", result.header
    assert result.error in ("MemoryError", "OSError")
    assert small.value("keep") == "'k'"
    assert small.value("[n * 2 for n in range(3)]") == "[0, 2, 4]"
    if result.error == "MemoryError":
        assert "memory" in result.hint
    small.run("chunks = a = d = None")
    assert small.value("len(bytearray(50_000_000))") == "50000000"


def test_without_a_ceiling_there_is_none(host: Host) -> None:
    assert host.value("import resource\nresource.getrlimit(resource.RLIMIT_DATA)[0]") == "-1"


def test_endless_recursion_and_deep_values(host: Host) -> None:
    result = host.run("def down(n):\n    return down(n + 1)\n\ndown(0)")
    assert (result.error, result.line) == ("RecursionError", 2)
    assert len(result.parts["traceback"]) < 3000
    host.run("a = []\nfor _ in range(100_000):\n    a = [a]\na")
    assert host.value("len('ok')") == "2"


# Resets


def test_reset_gives_a_clean_interpreter_and_workspace(host: Host) -> None:
    host.run(
        "import os\nx = 1\nos.environ['LEFT'] = '1'\nos.makedirs('a/b')\nopen('a/b/f', 'w').close()\nos.symlink('/', 'root')"  # noqa: E501
    )
    before = host.call("ping_request").header["worker_pid"]
    reply = host.reset()
    assert reply["worker_pid"] not in (0, before)
    assert host.value("import os\n('x' in globals(), 'LEFT' in os.environ, os.listdir('.'))") == "(False, False, [])"
    assert list(host.temp.iterdir()) == []


def test_reset_may_keep_files(host: Host) -> None:
    host.run("x = 1\nopen('f', 'w').write('kept')")
    host.reset(keep_files=True)
    assert host.value("('x' in globals(), open('f').read())") == "(False, 'kept')"


def test_reset_empties_shared_memory(fresh: Callable[..., Host]) -> None:
    host = fresh()
    shared = host.base / "shm"
    shared.mkdir()
    host.start(wipe=[str(shared), str(host.base / "missing")])
    for keep_files in (False, True):
        (shared / "folder").mkdir()
        (shared / "folder" / "segment").write_bytes(b"secret")
        (shared / "sem").write_bytes(b"")
        host.write("kept.txt", b"1")
        host.run("open('new.txt', 'w').close()")
        host.reset(keep_files=keep_files)
        assert list(shared.iterdir()) == []
        assert (host.workspace / "kept.txt").exists() is keep_files


@pytest.mark.parametrize("wipe", ["/dev/shm", ["/"], ["dev/shm"], ["/dev/../etc"], ["/dev\0"], [7]])  # noqa: S108
def test_what_cannot_be_wiped_is_refused(fresh: Callable[..., Host], wipe: object) -> None:
    assert fresh().start(wipe=wipe)["code"] == "bad_request"


def test_reset_answers_the_running_cell_first(host: Host) -> None:
    request = host.begin("print('started', flush=True)\nwhile True: pass")
    time.sleep(0.3)
    asked = host.send("reset_request", keep_files=False)
    result = host.finish(request)
    assert (result.status, result.death["cause"], result.stdout) == ("died", "reset", "started\n")
    assert host.wait(asked).header["status"] == "ok"
    assert host.value("1") == "1"


def test_reset_ends_threads_children_and_pools(host: Host) -> None:
    code = """
        import threading, time, subprocess, signal
        from multiprocessing import get_context
        for _ in range(3): threading.Thread(target=time.sleep, args=(600,)).start()
        pool = get_context('fork').Pool(2)
        kid = subprocess.Popen(['sh', '-c', "trap '' TERM INT HUP; sleep 7779"], start_new_session=True)
        kid.pid
    """
    pid = int(host.value(textwrap.dedent(code)) or 0)
    started = time.monotonic()
    host.reset()
    assert time.monotonic() - started < 5
    assert not alive(pid)
    assert host.value("'threading' in globals()") == "False"


def test_reset_deletes_what_is_hard_to_delete(host: Host) -> None:
    code = """
        import os
        base = os.getcwd()
        for n in (b'a\\nb', b'\\x1b[31mred', b'\\xff\\xfe', b'x' * 255, b'-rf', b'.hidden'):
            open(n, 'wb').close()
        os.makedirs('shut/inner')
        os.chmod('shut/inner', 0)
        os.chmod('shut', 0)
        for n in range(3000):
            os.mkdir('d'); os.chdir('d')
        os.chdir(base)
        for n in range(3000): open(f'f{n}', 'w').close()
        os.mkfifo('fifo')
    """
    assert host.run(textwrap.dedent(code)).status == "ok"
    host.reset()
    assert list(host.workspace.iterdir()) == []


def test_reset_opens_a_workspace_that_was_closed(host: Host) -> None:
    host.run("import os\nopen('left.txt', 'w').close(); os.chmod('.', 0)")
    assert host.workspace.stat().st_mode & 0o777 == 0
    host.reset()
    assert host.workspace.stat().st_mode & 0o700 == 0o700
    assert host.value("import os; os.listdir('.')") == "[]"


def test_a_fork_bomb_is_ended_by_reset(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    code = "import os, resource, time\nend = time.time() + 30\nn = 0\nwhile time.time() < end and n < 60:\n    n += 1\n    if os.fork() == 0: n = max(n, 54)\ntime.sleep(30)"  # noqa: E501
    request = host.begin(code)
    time.sleep(1.0)
    host.reset()
    assert host.finish(request).death["cause"] == "reset"
    assert host.value("1 + 1") == "2"
    me = host.process.pid
    left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == me]  # noqa: PTH208
    assert len(left) in (2, 3)  # the zygote, the worker, perhaps the next one


def test_the_supervisor_goes_before_what_the_program_starts(host: Host) -> None:
    code = "import subprocess\nint(subprocess.run(['nice'], capture_output=True).stdout)"
    assert int(host.value(code) or 0) > os.getpriority(os.PRIO_PROCESS, host.process.pid)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_many_zombies(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    code = "import os\nn = 0\nfor _ in range(1000):\n    p = os.fork()\n    if p == 0: os._exit(0)\n    n += 1\nn"
    assert host.value(code) == "1000"
    assert host.value("1") == "1"
    host.reset()
    assert host.value("1") == "1"


@pytest.mark.parametrize(
    "code",
    [
        "class R:\n    def __repr__(self): return 'D' * (150 << 20)\nR()",
        "raise ValueError('D' * (150 << 20))",
        "import sys\nsys.exit('D' * (150 << 20))",
        "display('D' * (150 << 20))",
        "chr(0x1F600) * (40 << 20)",
    ],
)
def test_huge_texts_are_told_with_the_state_kept(small: Host, code: str) -> None:
    small.run("kept = 'yes'")
    result = small.run(code)
    assert result.status in ("ok", "error"), result
    assert small.value("kept") == "'yes'"


LIARS = """
class S(str):
    def encode(self, *args): raise RuntimeError('encode')
    def __len__(self): return 10**12
class R:
    def __repr__(self): return S('abc')
class Liar(BaseException):
    def __str__(self): raise Liar()
    __repr__ = __str__
    def __getattribute__(self, name): raise Liar()
class Code(int):
    def __int__(self): raise Liar()
    def __format__(self, spec): raise Liar()
    def __and__(self, other): raise Liar()
"""


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("R()", "ok"),
        ("raise Liar", "error"),
        ("raise ValueError(S('abc'))", "error"),
        ("raise SystemExit(Liar())", "error"),
        ("raise SystemExit(Code(3))", "error"),
        ("raise SystemExit(S('abc'))", "error"),
        ("raise ValueError from Liar()", "error"),
        ("raise ExceptionGroup(S('abc'), [ValueError(Liar())])", "error"),
    ],
)
def test_objects_that_lie_are_told_with_the_state_kept(host: Host, code: str, status: str) -> None:
    host.run(LIARS)
    assert host.run(code).status == status
    assert host.value("Liar.__name__") == "'Liar'"
