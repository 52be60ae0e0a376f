"""Output: values, streams, volume, children, what programs do to their streams."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from host import Host


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1;", None),
        ("1 + 1;  # quiet", None),
        ("1 + 1  # note;", "2"),
        ("'a;b;'", "'a;b;'"),
        ("1; 2", "2"),
        ("'é;'  ;", None),
        ("(1 +\n 2)", "3"),
        ("None", None),
        ("print('x')", None),
        ("y = 5", None),
        ("(z := 9)", "9"),
        ("import os", None),
        ("for i in range(2):\n    i", None),
        ("'''a\nb'''", "'a\\nb'"),
        ("", None),
        ("# only a comment", None),
        ("x = 1\n\x0c\ny = 2\nx + y", "3"),
    ],
)
def test_the_value_of_the_last_expression(host: Host, code: str, value: str | None) -> None:
    result = host.run(code)
    assert (result.status, result.result) == ("ok", value)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("a = 1\r\nif a:\r\n    b = 2\r\nb\r\n", "2"),
        ("s = '''x\r\ny'''\r\ns", "'x\\ny'"),
        ("\ufeffx = 5\nx", "5"),
        ("    x = 4\n    y = x + 1\n    y\n", "5"),
        ("s = 'a\\x0cb\\x0bc\\rd'\n[hex(ord(c)) for c in s if ord(c) < 32]", "['0xc', '0xb', '0xd']"),
        ("s = '🍸 tea'\n(len(s), s)", "(5, '🍸 tea')"),
        ("len('" + "a" * 131_073 + "')", "131073"),
        ('s = """' + "漢'\\\"$`é\\n" * 20_000 + '"""\nlen(s)', "140000"),
        ("```python\n1 + 2\n```", "3"),
        ("\n~~~\n7\n~~~\n", "7"),
        ("```py\nx = '```'\nx\n```", "'```'"),
    ],
)
def test_texts_that_people_paste(host: Host, code: str, value: str) -> None:
    assert host.value(code) == value


def test_bytes_that_are_not_utf8(host: Host) -> None:
    assert host.run(b"'\xff'").result == "'\ufffd'"
    result = host.run("import sys\n_ = sys.stdout.buffer.write(b'ok \\xff end\\n')\nprint('\\ud800')\n'\\ud800'")
    assert result.stdout == "ok \ufffd end\n\\ud800\n"
    assert result.result == "'\\ud800'"


def test_a_text_with_lone_surrogates_is_sent_as_valid_utf8(host: Host) -> None:
    result = host.run("class R:\n    def __repr__(self): return 'x\\ud800y'\nR()")
    assert result.result == "x?y"
    assert host.run("raise ValueError('x\\ud800y')").message == "x?y"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise RuntimeError('no repr today')", "RuntimeError"),
        ("return 5", "TypeError"),
        ("raise SystemExit(4)", "SystemExit"),
    ],
)
def test_a_repr_that_fails(host: Host, body: str, error: str) -> None:
    result = host.run(f"class B:\n    def __repr__(self):\n        {body}\nb = B()\nprint('made')\nb")
    assert (result.status, result.error, result.stdout) == ("error", error, "made\n")
    assert host.value("type(b).__name__") == "'B'"


def test_a_repr_that_prints(host: Host) -> None:
    result = host.run("class P:\n    def __repr__(self):\n        print('side')\n        return 'P!'\nP()")
    assert (result.stdout, result.result) == ("side\n", "P!")


# Streams


def test_partial_lines_belong_to_their_cell(host: Host) -> None:
    assert host.run("print('abc', end='')").stdout == "abc"
    result = host.run("import sys\nprint('e', end='', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("", "e")


def test_output_before_an_exception_is_kept(host: Host) -> None:
    result = host.run("import sys\nprint('before')\nsys.stderr.write('warned\\n')\nraise KeyError('k')")
    assert (result.stdout, result.stderr, result.error, result.line) == ("before\n", "warned\n", "KeyError", 4)


def test_order_of_python_and_raw_writes_and_children(host: Host) -> None:
    code = """
        import os, subprocess
        print('one')
        os.write(1, b'two\\n')
        print('three')
        _ = subprocess.run(['echo', 'four'])
        print('five')
    """
    assert host.run(textwrap.dedent(code)).stdout == "one\ntwo\nthree\nfour\nfive\n"


def test_stream_objects_behave_like_files(host: Host) -> None:
    code = "import sys\n(sys.stdout.isatty(), sys.stdout.writable(), sys.stdout.encoding, sys.stdout.fileno(), sys.stdin.read())"  # noqa: E501
    assert host.value(code) == "(False, True, 'utf-8', 1, '')"
    assert host.run("sys.stdout.write(5)").error == "TypeError"
    assert host.run("sys.stdout.write('hey\\n')").result == "4"
    assert host.run("sys.stdout.writelines(['x\\n', 'y\\n'])").stdout == "x\ny\n"


def test_output_larger_than_a_pipe_keeps_its_end(host: Host) -> None:
    result = host.run("print('x' * 600_000 + 'END', end='')")
    assert result.header["streams"]["stdout"]["total"] == 600_003
    assert result.stdout.endswith("END")


# Volume


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 1999, 2000, 2001, 5000, 100_000])
def test_head_and_tail_fit_together(host: Host, size: int) -> None:
    result = host.run(f"print(''.join(chr(97 + i % 26) for i in range({size})), end='')", max_output=2000)
    text = "".join(chr(97 + i % 26) for i in range(size))
    stream = result.header["streams"]["stdout"]
    assert stream["total"] == size
    head = result.heads.get("stdout", b"").decode()
    tail = result.parts.get("stdout_tail", b"").decode()
    assert head == text[:1000]
    assert tail == text[stream["tail_from"] :]
    if size <= 2000:
        assert head + tail == text
        assert "stdout" not in result.header["truncated"]
    else:
        assert len(tail) == 1000
        assert result.header["truncated"] == ["stdout"]
        assert host.read(result.header["spool"]["stdout"]).body.decode() == text


def test_a_cut_tail_begins_with_a_whole_character(host: Host) -> None:
    for size in range(100_001, 100_004):
        result = host.run(f"import sys\n_ = sys.stdout.write('漢' * {size} + 'x' * ({size} % 3))", max_output=5000)
        assert not result.parts["stdout_tail"].decode("utf-8").startswith("\ufffd")


@pytest.mark.parametrize(
    "way", ["print('A' * 50_000_000)", "import subprocess\nsubprocess.run('yes | head -c 50000000', shell=True)"]
)
def test_fifty_megabytes(host: Host, way: str) -> None:
    result = host.run(way)
    assert result.status == "ok"
    assert result.header["streams"]["stdout"]["total"] >= 50_000_000
    assert len(result.heads["stdout"]) + len(result.parts["stdout_tail"]) <= 32_768
    path = result.header["spool"]["stdout"]
    assert host.read(path).header["size"] == result.header["streams"]["stdout"]["total"]
    assert result.seconds < 30


def test_large_texts_of_a_cell_are_cut_and_kept(host: Host) -> None:
    result = host.run("'z' * 30_000_000 + '漢'")
    assert len(result.parts["result"]) <= 32_768
    assert result.result is not None
    assert result.result.startswith("'zzz")
    assert result.result.endswith("漢'")
    assert "result" in result.header["truncated"]
    assert host.read(result.header["spool"]["result"]).header["size"] == 30_000_005
    result = host.run("raise ValueError('m' * 20_000_000)")
    assert result.error == "ValueError"
    assert len(result.parts["message"]) <= 32_768
    assert set(result.header["truncated"]) == {"message", "traceback"}


def test_the_spool_is_bounded(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start(spool_bytes=100_000)
    result = host.run("print('x' * 1_000_000)\n'y' * 1_000_000")
    for name in ("stdout", "result"):
        assert host.read(result.header["spool"][name]).header["size"] == 100_000
    host.reset()
    result = host.run("print('x' * 1_000_000)")
    assert host.read(result.header["spool"]["stdout"]).header["status"] == "ok"


def test_old_spools_are_dropped(host: Host) -> None:
    paths = [host.run("print('x' * 100_000)").header["spool"]["stdout"] for _ in range(12)]
    assert host.read(paths[0]).header["code"] == "not_found"
    assert host.read(paths[-1]).header["status"] == "ok"


def test_progress_is_told_while_output_comes(host: Host) -> None:
    result = host.run("import time\nfor i in range(14):\n    print('step', i)\n    time.sleep(0.1)")
    assert 2 <= len(result.progress) <= 8
    assert result.progress[-1]["bytes"] > result.progress[0]["bytes"]
    assert result.progress[-1]["last"].startswith("step ")
    assert host.run("import time\ntime.sleep(0.6)").progress == []


# Background


def test_output_of_threads_between_cells_is_told_apart(host: Host) -> None:
    host.run("import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late line'))).start()")
    time.sleep(0.6)
    result = host.run("print('now')")
    assert result.stdout == "now\n"
    assert result.parts["late_stdout"] == b"late line\n"
    assert "late_stdout" not in host.run("1").parts


def test_late_output_is_bounded(host: Host) -> None:
    host.run("import subprocess\n_ = subprocess.Popen('sleep 0.1; yes | head -c 1000000', shell=True)")
    time.sleep(0.8)
    assert len(host.run("1").parts["late_stdout"]) == 4096


def test_threads_within_a_cell_and_pools_over_cells(host: Host) -> None:
    result = host.run(
        "import threading\nt = threading.Thread(target=lambda: print('child'))\nt.start(); t.join(); print('parent')"
    )
    assert result.stdout == "child\nparent\n"
    host.run(
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\nf = pool.submit(pow, 2, 10)"
    )
    assert host.value("f.result(timeout=20)") == "1024"


def test_exit_functions_do_not_run_after_a_cell(host: Host) -> None:
    host.run("import atexit\n_ = atexit.register(print, 'bye')")
    assert host.run("1").stdout == ""


# Children


def test_children_write_into_the_cell(host: Host) -> None:
    result = host.run("import subprocess\nsubprocess.run(['sh', '-c', 'echo out; echo err >&2; exit 3']).returncode")
    assert (result.stdout, result.stderr, result.result) == ("out\n", "err\n", "3")


def test_text_in_the_c_librarys_buffer(host: Host) -> None:
    assert host.run("import ctypes\n_ = ctypes.CDLL(None).puts(b'buffered in C')").stdout == "buffered in C\n"
    result = host.run("lib = ctypes.PyDLL(None)\n_ = lib.printf(b'1' * 300_000)\nprint('survived')")
    assert result.stdout.endswith("survived\n") or "survived" in result.stdout


def test_exit_codes_of_children_are_not_stolen(host: Host) -> None:
    host.run("import subprocess\nps = [subprocess.Popen(['sh', '-c', f'exit {i % 5}']) for i in range(30)]")
    time.sleep(0.5)
    assert host.value("[p.wait() for p in ps] == [i % 5 for i in range(30)]") == "True"


def test_standard_input_is_empty_everywhere(host: Host) -> None:
    code = "import subprocess, os, sys\n(subprocess.run(['cat'], capture_output=True).stdout, os.read(0, 9), list(sys.stdin))"  # noqa: E501
    assert host.value(code) == "(b'', b'', [])"


@pytest.mark.parametrize("code", ["n = 1\ninput('who? ')", "import getpass\ngetpass.getpass('pw')"])
def test_reading_from_a_person_fails_at_once(host: Host, code: str) -> None:
    result = host.run(code)
    assert (result.error, result.line) == ("EOFError", 2)
    assert "nobody can type" in result.message
    assert result.hint


# Logging and warnings


def test_a_handler_that_kept_the_stream(host: Host) -> None:
    code = "import logging, sys\nlg = logging.getLogger('app')\nlg.addHandler(logging.StreamHandler(sys.stdout))\nlg.warning('one')"  # noqa: E501
    assert host.run(code).stdout == "one\n"
    assert host.run("lg.warning('two')").stdout == "two\n"
    assert host.run("logging.getLogger().warning('root')").stderr.endswith("root\n")


def test_warnings(host: Host) -> None:
    for _ in range(2):
        assert "look out" in host.run("import warnings\nwarnings.warn('look out')").stderr
    code = (
        "with warnings.catch_warnings():\n    warnings.simplefilter('error')\n    int('1')\n    warnings.warn('strict')"
    )
    result = host.run(code)
    assert (result.error, result.line) == ("UserWarning", 4)


# What programs do to their streams


@pytest.mark.parametrize(
    "damage",
    [
        "import sys\nsys.stdout.close()",
        "import sys\nsys.stdout = None\nsys.stderr = None",
        "import sys, io\nsys.stdout = io.StringIO()\nprint('hidden')",
        "import sys\nwith open('cap.txt', 'w') as sys.stdout:\n    print('to file')",
        "import os\nos.close(1)\nos.close(2)",
        "import os\nfd = os.open('fd1.txt', os.O_CREAT | os.O_WRONLY)\nos.dup2(fd, 1)",
        "import sys\ndel sys.stdout, sys.stderr, sys.stdin",
        "import os\nos.set_blocking(1, False)\nos.set_blocking(2, False)",
        "exit()",
        "import sys\nclass W:\n    closed = True\nsys.stdout = W()",
    ],
)
def test_later_cells_are_heard(host: Host, damage: str) -> None:
    assert "hidden" not in host.run("keep = 1\n" + damage).stdout
    result = host.run("import os\nprint('heard')\n_ = os.system('echo child')\nkeep")
    assert (result.stdout, result.result) == ("heard\nchild\n", "1")
    assert host.run("import sys\nprint('e', file=sys.stderr)\nprint('x' * 400_000)").stderr == "e\n"


def test_writes_that_fail_do_not_end_the_stream(host: Host) -> None:
    host.run("import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\ntry: print('late')\nexcept OSError: pass")
    assert host.run("print('heard')").stdout.endswith("heard\n")


def test_a_working_replacement_stays(host: Host) -> None:
    code = """
        import sys
        class Tee:
            def __init__(self, out): self.out, self.seen = out, []
            def write(self, text): self.seen.append(text); return self.out.write(text)
            def flush(self): self.out.flush()
        sys.stdout = Tee(sys.stdout)
    """
    host.run(textwrap.dedent(code))
    assert host.run("print('both')").stdout == "both\n"
    assert host.value("''.join(sys.stdout.seen)") == "'both\\n'"


def test_descriptor_one_to_a_file_and_back(host: Host) -> None:
    code = """
        import os
        saved = os.dup(1)
        fd = os.open('fd1.txt', os.O_CREAT | os.O_WRONLY)
        os.dup2(fd, 1)
        os.system('echo into file')
        os.dup2(saved, 1)
        print('restored')
    """
    assert host.run(textwrap.dedent(code)).stdout == "restored\n"
    assert host.value("open('fd1.txt').read()") == "'into file\\n'"


def test_redirection_for_a_block(host: Host) -> None:
    code = "import contextlib, io\nb = io.StringIO()\nwith contextlib.redirect_stdout(b):\n    print('in')\nprint('out')\nb.getvalue()"  # noqa: E501
    result = host.run(code)
    assert (result.stdout, result.result) == ("out\n", "'in\\n'")


def test_pipes_made_small(host: Host) -> None:
    code = """
        import fcntl
        for fd in range(1024):
            for op, v in ((1031, 4096), (4, 0o40000)):
                try: fcntl.fcntl(fd, op, v)
                except OSError: pass
        print('z' * 100_000 + 'END')
    """
    result = host.run(textwrap.dedent(code))
    assert result.stdout.endswith("END\n")
    assert result.header["streams"]["stdout"]["total"] == 100_004


def test_many_short_lines_come_whole_and_in_time(host: Host) -> None:
    code = "import sys\nfor i in range(20000): print(i)\nprint('end', file=sys.stderr)"
    lines = "".join(f"{i}\n" for i in range(20000))
    result = host.run(code, max_output=262_144)
    assert result.header["streams"]["stdout"]["total"] == len(lines)
    assert result.stdout == lines
    assert result.stderr == "end\n"
    crash = host.run("import os\nfor i in range(3000): print(i)\nos.kill(os.getpid(), 9)")
    assert crash.stdout == "".join(f"{i}\n" for i in range(3000))
    after = host.run("print('own')")
    assert after.stdout == "own\n"
    assert "late_stdout" not in after.parts
