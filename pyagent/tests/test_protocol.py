"""The protocol: channels, order, bounds, leases, and workers that break the rules."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from host import MAIN, Host

from biocage_agent.frames import encode

if TYPE_CHECKING:
    from collections.abc import Callable


def descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(place.parent.name)] = int(fields[1])
    found = {pid}
    for _ in parents:
        found |= {child for child, parent in parents.items() if parent in found}
    return sorted(found - {pid})


@pytest.mark.parametrize("channel", ["fd", "unix", "stdio"])
def test_channels(fresh: Callable[..., Host], channel: str) -> None:
    host = fresh(channel=channel)
    assert host.info == {
        "type": "kernel_info",
        "protocol": 1,
        "agent": host.info["agent"],
        "python": ".".join(map(str, sys.version_info[:3])),
        "pid": host.process.pid,
    }
    assert host.start()["status"] == "ok"
    assert host.value("1 + 1") == "2"
    left = descendants(host.process.pid)
    assert len(left) == 2
    assert host.close() == 0
    assert [pid for pid in left if Path(f"/proc/{pid}").exists()] == []


def test_the_end_of_descriptor_0_ends_a_unix_channel(fresh: Callable[..., Host]) -> None:
    host = fresh(channel="unix")
    host.start()
    os.close(host._lifeline)  # noqa: SLF001
    host._lifeline = -1  # noqa: SLF001
    assert host.process.wait(10) == 0


@pytest.mark.parametrize("busy", [False, True])
def test_the_end_of_the_channel_ends_everything(fresh: Callable[..., Host], busy: bool) -> None:  # noqa: FBT001
    host = fresh()
    host.start()
    code = """
        import os, signal, subprocess, time
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
        for _ in range(5): subprocess.Popen(['sh', '-c', "trap '' TERM INT HUP; sleep 600"], start_new_session=True)
    """
    host.run(textwrap.dedent(code))
    if busy:
        host.begin("while True: pass")
        time.sleep(0.2)
    left = descendants(host.process.pid)
    assert len(left) >= 7
    assert host.close() == 0
    assert [pid for pid in left if Path(f"/proc/{pid}").exists()] == []


def test_the_lease(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start(lease_ms=700)
    host.begin("while True: pass")
    for _ in range(5):
        time.sleep(0.3)
        assert host.call("ping_request").header["status"] == "ok"
    started = time.monotonic()
    assert host.process.wait(10) == 0
    assert 0.3 < time.monotonic() - started < 5


def test_ping_while_a_cell_runs(host: Host) -> None:
    request = host.begin("x = bytearray(50_000_000)\nwhile True: pass")
    time.sleep(0.4)
    assert set(host.call("ping_request").header) == {"type", "id", "status", "busy", "worker_pid"}
    ping = host.call("ping_request", memory=True).header
    assert ping["busy"] == request
    assert ping["worker_pid"] > 0
    assert ping["memory_bytes"] > 50_000_000
    assert isinstance(ping["oom_kills"], int)
    second = host.call("execute_request", b"1", max_output=100, execution_count=1).header
    assert (second["status"], second["code"]) == ("error", "busy")
    assert host.call("inspect_request", limit=5).header["code"] == "busy"
    host.reset()
    host.finish(request)
    assert host.call("ping_request").header["busy"] == 0


def test_shutdown(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    host.begin("while True: pass")
    left = descendants(host.process.pid)
    assert host.call("shutdown_request").header["status"] == "ok"
    assert host.process.wait(10) == 0
    assert [pid for pid in left if Path(f"/proc/{pid}").exists()] == []


def test_requests_before_the_start_and_twice(fresh: Callable[..., Host]) -> None:
    host = fresh()
    for kind in ("execute_request", "reset_request", "inspect_request", "read_file_request"):
        assert host.call(kind).header["code"] == "not_ready"
    assert host.call("ping_request").header["worker_pid"] == 0
    assert host.start(workspace="relative")["code"] == "bad_request"
    assert host.start(memory_bytes=-1)["code"] == "bad_request"
    assert host.start(preload="numpy")["code"] == "bad_request"
    assert host.start()["status"] == "ok"
    assert host.start()["code"] == "bad_request"
    assert host.call("no_such_request").header["code"] == "bad_request"
    assert host.value("1") == "1"


def test_preload_that_fails_is_told(fresh: Callable[..., Host]) -> None:
    host = fresh()
    reply = host.start(preload=["json", "no_such_module_x", "this.is.not"])
    assert reply["failed"] == ["no_such_module_x", "this.is.not"]
    assert host.value("1") == "1"


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack(">II", 65_537, 0),
        struct.pack(">II", 10, 16_777_217),
        struct.pack(">II", 2, 0) + b"[]",
        struct.pack(">II", 5, 0) + b"{\xff\xfe}x",
        encode({"type": "ping_request"}),
        encode({"type": "ping_request", "id": -1}),
        encode({"type": "ping_request", "id": True}),
        encode({"type": "ping", "id": 1}),
        struct.pack(">II", 40_000, 0) + b"[" * 40_000,
        struct.pack(">II", 4, 0) + b"null",
    ],
)
def test_a_host_that_breaks_the_framing_loses_the_sandbox(fresh: Callable[..., Host], raw: bytes) -> None:
    host = fresh()
    host.start()
    host.socket.sendall(raw)
    assert host.process.wait(10) == 0


def test_frames_in_pieces_and_many_at_once(host: Host) -> None:
    raw = b"".join(encode({"type": "ping_request", "id": 10_000_000 + n}) for n in range(300))
    for start in range(0, len(raw), 777):
        host.socket.sendall(raw[start : start + 777])
    for number in range(300):
        assert host.wait(10_000_000 + number).header["status"] == "ok"


def test_a_slow_host_does_not_block_or_bloat(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    host.write("big", b"x" * (1 << 20))
    asked = [host.send("read_file_request", path="big", offset=0, limit=1 << 20) for _ in range(60)]
    time.sleep(1.0)
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident < 80_000
    for request in asked:
        assert len(host.wait(request).body) == 1 << 20
    assert host.value("1") == "1"


def test_floods_do_not_bloat_the_supervisor(host: Host) -> None:
    request = host.begin("import os\nb = b'B' * (1 << 20)\nwhile True: os.write(2, b)")
    time.sleep(1.5)
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident < 64_000
    assert host.call("ping_request").header["busy"] == request
    host.call("interrupt_request", cell=request, grace_ms=5000)
    assert host.finish(request).header["streams"]["stderr"]["total"] > 1 << 20


# Workers that break the rules. Each program speaks on every descriptor that it has.

FORGED = [
    "{'type': 'reply', 'nonce': '0' * 32, 'status': 'ok', 'parts': [], 'truncated': []}",
    "{'type': 'reply', 'status': 'ok', 'parts': [['result', 6]], 'truncated': []}",
    "{'type': 'variables', 'variables': [], 'more': 0, 'cwd': ''}",
    "{'type': 'display', 'mime': 'text/plain', 'last': True}",
    "{'type': 'ready'}",
    "{'type': 'execute_reply', 'id': 1}",
]


@pytest.mark.parametrize("message", FORGED)
def test_forged_messages(host: Host, message: str) -> None:
    code = f"""
        import json, os, struct
        head = json.dumps({message}).encode()
        for fd in range(3, 1024):
            try: os.write(fd, struct.pack('>II', len(head), 6) + head + b'FORGED')
            except OSError: pass
        'mine'
    """
    result = host.run(textwrap.dedent(code), timeout=10)
    assert (result.status, result.death["cause"]) == ("died", "protocol")
    following = host.run("print(6 * 7)")
    assert (following.status, following.stdout, following.result) == ("ok", "42\n", None)


@pytest.mark.parametrize(
    "code",
    [
        (
            "import os\nfor fd in range(3, 1024):\n    for raw in (b'[' * 100000, b'\\xff' * 8, b'\\0' * 64):\n"
            "        try: os.write(fd, raw)\n        except OSError: break"
        ),
        "import os\nos.closerange(0, 65536)",
        "import os\nos.closerange(3, 65536)\nwhile True: pass",
        (
            "import os, fcntl, socket\nfor fd in range(0, 1024):\n    try: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)\n"  # noqa: E501
            "    except OSError: pass\n    try: socket.socket(fileno=os.dup(fd)).shutdown(2)\n    except OSError: pass"
        ),
        (
            "import os\nfor fd in range(1, 1024):\n    for i in range(60):\n        try: os.write(fd, b'{\"id\": %d}' % i)\n"  # noqa: E501
            "        except OSError: break"
        ),
        "import os\nos.kill(-1, 9) if os.getpid() == 1 else os.kill(os.getpid(), 9)",
    ],
)
def test_noise_on_every_descriptor(host: Host, code: str) -> None:
    result = host.run(code, timeout=10)
    assert result.status in ("ok", "error", "died")
    for _ in range(2):
        following = host.run("print(6 * 7)", timeout=10)
        if following.status == "died":
            following = host.run("print(6 * 7)", timeout=10)
        assert (following.status, following.stdout) == ("ok", "42\n")


def test_a_worker_whose_socket_does_not_block(host: Host) -> None:
    code = "import os\nfor fd in range(3, 1024):\n    try: os.set_blocking(fd, False)\n    except OSError: pass\n'z' * 3_000_000"  # noqa: E501
    result = host.run(code)
    assert result.status == "ok"
    assert "result" in result.header["truncated"]
    assert host.value("1 + 1") == "2"


def test_nothing_can_be_stolen_from_descriptors(host: Host) -> None:
    code = """
        import os, select
        got = []
        for fd in [0] + list(range(3, 1024)):
            try:
                if select.select([fd], [], [], 0.001)[0]: got.append(os.read(fd, 100))
            except (OSError, ValueError): pass
        [g for g in got if g]
    """
    assert host.value(textwrap.dedent(code)) == "[]"


def test_the_supervisors_memory_is_closed_to_the_worker(host: Host) -> None:
    if os.getuid() == 0:
        pytest.skip("root reads everything; the test with --drop-uid looks at this")
    pid = host.process.pid
    assert host.run(f"open('/proc/{pid}/mem', 'rb')").error == "PermissionError"


def test_signals_at_the_supervisor_are_ignored(host: Host) -> None:
    deadly = [
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGALRM,
        signal.SIGPIPE,
    ]
    for number in [*deadly, signal.SIGCHLD, signal.SIGCHLD, 34, 50, 64]:
        os.kill(host.process.pid, number)
    assert host.value("1 + 1") == "2"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_zygote_that_is_killed_or_stopped(fresh: Callable[..., Host], number: int) -> None:
    host = fresh()
    host.start()
    host.run("x = 1")
    worker = host.call("ping_request").header["worker_pid"]
    zygote = next(pid for pid in descendants(host.process.pid) if pid != worker)
    host.run(f"import os\nos.kill({zygote}, {int(number)})")
    time.sleep(0.2)
    assert host.value("x") == "1"
    assert host.run("os._exit(1)").status == "died"
    assert host.value("'x' in globals()") == "False"
    host.reset()
    assert host.value("1 + 1") == "2"


def test_everything_killed_at_once_by_the_program(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    for _ in range(3):
        pids = [pid for pid in descendants(host.process.pid) if pid]
        host.run(f"import os\nfor p in {pids}:\n    if p != os.getpid(): os.kill(p, 9)\nos.kill(os.getpid(), 9)")
        assert host.value("1 + 1") == "2"


# As the first process of a sandbox, as root with a worker that is not

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


def in_namespace(tmp_path: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-I", str(MAIN)]
    process = subprocess.Popen(  # noqa: S603
        [*command, f"--channel=fd:{number},{number}", *arguments], pass_fds=[number], cwd=tmp_path
    )
    theirs.close()
    return process, ours


class NamespaceHost(Host):
    """A supervisor that is process 1 of a namespace of its own."""

    def _launch(self, channel: str, arguments: tuple[str, ...]) -> socket.socket:
        assert channel == "fd"
        self.process, ours = in_namespace(self.base, *arguments)
        return ours


@needs_root
def test_as_process_1(tmp_path: Path) -> None:
    host = NamespaceHost(tmp_path)
    assert host.info["pid"] == 1
    host.start(memory_bytes=1 << 30)
    host.run("import os\nfor s in (9, 19, 15, 2, 1): os.kill(1, s)")
    assert host.value("x = 1\nos.getppid()") == "1"
    result = host.run("os.kill(-1, 9)")
    assert result.status in ("died", "ok")
    assert host.value("1 + 1") == "2"
    bomb = host.begin("import os\nn = 0\nwhile n < 7:\n    n += 1\n    os.fork()\nwhile True: pass")
    time.sleep(0.5)
    host.call("interrupt_request", cell=bomb, grace_ms=600)
    assert host.finish(bomb).status in ("error", "died")
    host.reset()
    names = "import os\nsorted(int(p) for p in os.listdir('/proc') if p.isdigit())"
    assert len((host.value(names) or "").split(",")) == 3
    assert host.close() == 0


@needs_root
def test_a_worker_that_is_another_user() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        check_another_user(place)


def check_another_user(tmp_path: Path) -> None:
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, 54_321, 54_321)
    host = NamespaceHost(tmp_path, arguments=("--drop-uid=54321",))
    reply = host.start(memory_bytes=1 << 30, preload=["json"])
    assert reply["status"] == "ok"
    assert host.value("import os\n(os.getresuid(), os.getresgid(), os.getgroups())") == (
        "((54321, 54321, 54321), (54321, 54321, 54321), [])"
    )
    for number in (9, 19):
        assert host.run(f"os.kill(1, {number})").error == "PermissionError"
    assert host.run("open('/proc/1/mem', 'rb')").error == "PermissionError"
    assert host.run("os.listdir('/proc/1/fd')").error == "PermissionError"
    assert host.run("open('/proc/self/mem', 'rb').close()").status == "ok"
    zygote = "[p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())][0]"
    assert host.run(f"os.kill(int({zygote}), 9)").error == "PermissionError"
    assert host.write("made.txt", b"by the host")["status"] == "ok"
    assert (tmp_path / "work" / "made.txt").stat().st_uid == 54_321
    host.run("os.makedirs('shut')\nopen('shut/f', 'w').write('x')\nos.chmod('shut', 0)")
    assert host.read("/root/.profile").header["code"] in ("permission", "not_found")
    assert host.run("print('x' * 100_000)").header["spool"]["stdout"]
    host.reset()
    assert list((tmp_path / "work").iterdir()) == []
    assert host.value("1 + 1") == "2"
    assert host.close() == 0
