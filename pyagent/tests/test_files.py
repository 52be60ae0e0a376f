"""File requests, changed files, the workspace as the host sees it."""

from __future__ import annotations

import os
import resource
import stat
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from host import Host


@pytest.mark.parametrize(
    "name",
    [
        "plain.txt",
        "données été – copie (1).txt",  # noqa: RUF001
        "a/b/c.txt",
        "./a/./b/../b/d.txt",
        "-rf",
        "$(id)",
        "with\nnewline",
        "'quoted\"",
        "x" * 255,
    ],
)
def test_what_is_written_is_read(host: Host, name: str) -> None:
    data = bytes(range(256)) * 10
    reply = host.write(name, data)
    path = os.path.normpath(host.workspace / name)
    assert (reply["status"], reply["path"], reply["size"]) == ("ok", path.replace("\n", "\\u{A}"), len(data))
    frame = host.read(name)
    assert (frame.body, frame.header["size"], frame.header["mode"]) == (data, len(data), 0o644)
    assert host.value(f"open({name!r}, 'rb').read() == bytes(range(256)) * 10") == "True"


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (b"\xff\xfe.csv", r"\xff\xfe.csv"),
        (b"\x1b[31mred", r"\u{1B}[31mred"),
        (b"two\nlines\t", r"two\u{A}lines\u{9}"),
        ("c1 \x85".encode(), r"c1 \u{85}"),
        (rb"\xff", r"\x5cxff"),
        (rb"\u{1B}", r"\x5cu{1B}"),
        (rb"C:\new\x", r"C:\new\x"),
        (b"d\xc3/\x07/f", r"d\xc3/\u{7}/f"),
    ],
)
def test_a_name_that_is_no_text_is_shown_so_that_it_can_be_read(host: Host, made: bytes, shown: str) -> None:
    result = host.run(
        f"import os\nos.makedirs(os.path.dirname({made!r}) or b'.', exist_ok=True)\nopen({made!r}, 'w').write('here')"
    )
    assert [file["path"] for file in result.header["files"]] == [shown]
    assert [entry["path"] for entry in host.listing(recursive=True) if entry["type"] == "file"] == [shown]
    assert host.read(shown).body == b"here"
    assert host.read(shown).header["path"] == f"{host.workspace}/{shown}"
    assert host.write(shown, b"new")["size"] == 3
    assert host.value(f"open({made!r}).read()") == "'new'"
    assert host.value("sum(len(files) for _, _, files in __import__('os').walk('.'))") == "1"


def test_two_names_that_are_shown_alike_are_told_apart(host: Host) -> None:
    host.run(r"open(b'\xff', 'w').write('byte'); open(rb'\xff', 'w').write('four characters')")
    listed = [entry["path"] for entry in host.listing()]
    assert {name: host.read(name).body for name in listed} == {r"\xff": b"byte", r"\x5cxff": b"four characters"}
    host.run("import os; os.unlink(b'\\xff')")
    assert host.read(r"\xff").body == b"four characters"
    assert host.write(r"new\x80", b"1")["path"] == rf"{host.workspace}/new\x5cx80"
    assert host.read(r"..\u{2F}..\u{2F}etc\u{2F}passwd").header["code"] == "not_found"


def test_parts_of_a_file(host: Host) -> None:
    host.write("f", b"0123456789")
    assert host.read("f", 3, 4).body == b"3456"
    assert host.read("f", 8, 100).body == b"89"
    assert host.read("f", 100, 5).body == b""
    assert host.call("read_file_request", path="f", offset=-1, limit=5).header["code"] == "bad_request"
    assert host.call("read_file_request", path="f", offset=0, limit=1 << 21).header["code"] == "bad_request"


def test_appending_and_overwriting(host: Host) -> None:
    assert host.write("log/f", b"one", mode="append")["size"] == 3
    assert host.write("log/f", b"two", mode="append")["size"] == 6
    assert host.read("log/f").body == b"onetwo"
    host.write("log/f", b"x")
    assert host.read("log/f").body == b"x"
    assert host.write("log/f", b"YZ", mode="at", offset=1)["size"] == 3
    assert host.read("log/f").body == b"xYZ"
    assert host.write("log/f", b"y", mode="at", offset=10)["code"] == "bad_request"


def test_a_file_in_chunks_appears_whole(host: Host) -> None:
    host.write("big", b"old")
    chunk = os.urandom(1 << 20)
    host.write("big", chunk, more=True)
    assert host.read("big").body == b"old"
    for number in range(1, 20):
        host.write("big", chunk, mode="at", offset=number << 20, more=number < 19)
    assert host.read("big").header["size"] == 20 << 20
    assert host.read("big", 19 << 20).body == chunk
    assert [entry["path"] for entry in host.listing()] == ["big"]


def test_a_file_in_chunks_may_be_dropped(host: Host) -> None:
    host.write("f", b"old")
    host.write("f", b"new", more=True)
    assert host.write("f", b"", abort=True)["status"] == "ok"
    assert host.read("f").body == b"old"
    assert [entry["path"] for entry in host.listing()] == ["f"]


def test_a_body_of_sixteen_megabytes(host: Host) -> None:
    assert host.write("big", b"x" * (16 << 20))["size"] == 16 << 20


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("../../etc/evil.txt", {"bad_path"}),
        ("/etc/passwd", {"bad_path"}),
        ("ok/../../evil.txt", {"bad_path"}),
        ("", {"bad_path"}),
        (".", {"bad_path"}),
        ("a\0b", {"bad_request"}),
        ("x" * 256, {"bad_path"}),
        ("x/" * 2100, {"bad_path"}),
        ("folder", {"is_directory"}),
        ("file/below", {"not_directory", "exists"}),
        ("pipe", {"not_regular"}),
        ("out/new.txt", {"bad_path"}),
        ("up/new.txt", {"bad_path"}),
        ("loop/x", {"bad_path", "not_directory", "exists"}),
        ("/proc/self/mem", {"bad_path"}),
    ],
)
def test_writes_that_are_refused(host: Host, path: str, codes: set[str]) -> None:
    host.run("import os\nos.mkdir('folder')\nopen('file', 'w').close()\nos.mkfifo('pipe')\nos.symlink('loop', 'loop')")
    host.run(f"os.makedirs('{host.temp}/outside')\nos.symlink('{host.temp}/outside', 'out')\nos.symlink('/etc', 'up')")
    for mode in ("create", "append"):
        reply = host.write(path, b"evil", mode=mode)
        assert (reply["status"], reply["code"] in codes) == ("error", True), reply
        assert reply["message"]
    assert list((host.temp / "outside").iterdir()) == []


def test_a_link_in_the_files_place_is_replaced(host: Host) -> None:
    victim = host.temp / "victim"
    host.run(
        f"import os\nopen('{victim}', 'w').write('original')\nos.symlink('{victim}', 'link')\nos.symlink('/nowhere', 'dangling')"  # noqa: E501
    )
    assert host.write("link", b"mine")["status"] == "ok"
    assert host.write("dangling", b"mine")["status"] == "ok"
    assert victim.read_text() == "original"
    assert (host.workspace / "link").is_symlink() is False


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "not_found"),
        ("folder", "is_directory"),
        ("pipe", "not_regular"),
        ("socket", "not_regular"),
        ("/dev/zero", "not_regular"),
        ("/dev/tty", "not_regular"),
        ("file/below", "not_directory"),
        ("loop", "bad_path"),
    ],
)
def test_reads_that_are_refused_never_block(host: Host, path: str, code: str) -> None:
    host.run(
        "import os, socket\nos.mkdir('folder')\nopen('file', 'w').close()\nos.mkfifo('pipe')\nos.symlink('loop', 'loop')"  # noqa: E501
    )
    host.run("s = socket.socket(socket.AF_UNIX)\ns.bind('socket')")
    started = time.monotonic()
    reply = host.read(path).header
    assert reply["status"] == "error"
    assert reply["code"] in (code, "not_regular")
    assert time.monotonic() - started < 5


def test_reading_beyond_the_workspace(host: Host) -> None:
    assert host.read("/etc/hostname").header["status"] == "ok"
    assert host.read("/proc/self/status").header["status"] == "ok"


def test_lists(host: Host) -> None:
    host.run(
        "import os\nos.makedirs('d/e')\nopen('d/e/f', 'w').write('123')\nos.symlink('/etc', 'link')\nos.mkfifo('pipe')"
    )
    host.run("open(b'\\xff\\xfe', 'wb').close()\nopen('a\\nb', 'w').close()")
    flat = {entry["path"]: entry["type"] for entry in host.listing()}
    assert flat == {"d": "directory", "link": "symlink", "pipe": "other", r"\xff\xfe": "file", r"a\u{A}b": "file"}
    deep = {entry["path"]: entry for entry in host.listing(recursive=True)}
    assert deep["d/e/f"]["size"] == 3
    assert abs(deep["d/e/f"]["mtime_ns"] - time.time_ns()) < 60 * 10**9
    assert list(deep) == sorted(deep)
    assert "link/passwd" not in deep
    assert [entry["path"] for entry in host.listing("d")] == ["d/e"]
    assert all(entry["path"].startswith("/") for entry in host.listing("/etc"))
    assert host.call("list_files_request", path="none", recursive=False, limit=10).header["code"] == "not_found"
    assert host.call("list_files_request", path="a\nb", recursive=False, limit=10).header["code"] == "not_directory"


def test_lists_are_bounded(host: Host) -> None:
    host.run("for n in range(300): open(f'{n:03}' + 'x' * 200, 'w').close()")
    frame = host.call("list_files_request", path="", recursive=True, limit=100)
    assert frame.header["truncated"] is True
    host.run("for n in range(9000): open(f'{n:04}' + 'y' * 200, 'w').close()")
    frame = host.call("list_files_request", path="", recursive=True, limit=10_000)
    assert frame.header["truncated"] is True
    assert len(frame.body) <= 1 << 20


def test_links_for_exposures(host: Host) -> None:
    target = host.temp / "exposed"
    target.mkdir()
    assert host.call("make_link_request", path="data/in", target=str(target)).header["status"] == "ok"
    assert host.call("make_link_request", path="data/in", target=str(target)).header["code"] == "exists"
    assert host.call("make_link_request", path="/etc/x", target=str(target)).header["code"] == "bad_path"
    assert host.write("data/in/f", b"through")["status"] == "ok"
    assert (target / "f").read_bytes() == b"through"


def test_modes_do_not_depend_on_the_programs_umask(host: Host) -> None:
    host.run("import os\nold = os.umask(0o777)")
    host.write("perm/f", b"data")
    assert stat.S_IMODE((host.workspace / "perm" / "f").stat().st_mode) == 0o644
    assert host.value("open('perm/f').read()") == "'data'"


def test_files_while_a_cell_runs(host: Host) -> None:
    request = host.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nopen('go').read()")
    host.write("go", b"seen")
    assert host.finish(request).result == "'seen'"


# What a cell changed


def test_changed_files_are_told(host: Host) -> None:
    host.write("input.csv", b"1,2")
    result = host.run(
        "import os\nos.makedirs('out')\nopen('out/a.txt', 'w').write('hello')\nopen('.hidden', 'w').close()"
    )
    assert [(item["path"], item["size"]) for item in result.header["files"]] == [("out/a.txt", 5)]
    assert host.run("open('out/a.txt').read()").header["files"] == []
    time.sleep(0.02)
    assert [item["path"] for item in host.run("open('input.csv', 'a').write('3')").header["files"]] == ["input.csv"]
    host.write("by_host", b"x")
    assert host.run("1").header["files"] == []


def test_changed_files_are_bounded(host: Host) -> None:
    result = host.run("for n in range(200): open(f'{n:03}' + 'é' * 60, 'w').close()")
    assert 10 < len(result.header["files"]) <= 50
    assert len(result.header["files"]) + result.header["files_more"] == 200
    assert host.run("for n in range(6000): open(f'many{n}', 'w').close()").header["files_more"] > 1000
    started = time.monotonic()
    assert host.run("1").header["files"] == []
    assert time.monotonic() - started < 5


def test_a_full_disk_is_told(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    host.run("import os\nos.symlink('/dev/full', 'full')")
    assert host.write("full", b"x" * 100, mode="append")["status"] == "error"
    assert host.run("open('/dev/full', 'w').write('x' * 100_000)").error == "OSError"


def test_an_append_that_fails_changes_nothing(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    assert host.write("old", b"12345678", mode="append")["size"] == 8
    resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    assert host.write("old", b"x" * 100, mode="append")["status"] == "error"
    assert host.write("new", b"x" * 100, mode="append")["status"] == "error"
    assert (host.workspace / "old").read_bytes() == b"12345678"
    assert not (host.workspace / "new").exists()
    assert host.write("old", b"90", mode="append")["size"] == 10
