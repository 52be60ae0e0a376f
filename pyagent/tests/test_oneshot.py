"""One script without a server: the program that an image runs by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from host import MAIN

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {
    "success", "status", "run_id", "stdout", "stderr", "exit_code", "execution_time",
    "result", "error", "images", "files", "truncated", "restarted", "session",
}  # fmt: skip


def once(
    place: Path, code: str | bytes | None, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a directory of its own."""
    temp = place / "tmp"
    temp.mkdir(exist_ok=True)
    data = code.encode("utf-8", "surrogatepass") if isinstance(code, str) else code
    return subprocess.run(  # noqa: S603
        [sys.executable, "-I", str(MAIN), "--once", *arguments],
        input=data if data is not None else b"",
        cwd=place,
        env={**os.environ, "TMPDIR": str(temp), **environment},
        capture_output=True,
        check=False,
        timeout=90,
    )


def result_of(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The result object: one line, and nothing beside it."""
    assert done.stdout.count(b"\n") == 1, done
    assert done.stderr == b""
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    assert set(result) >= FIELDS
    assert result["exit_code"] == done.returncode
    return result


def test_sources_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('file')")
    assert result_of(once(tmp_path, "print('input')"))["stdout"] == "input\n"
    assert result_of(once(tmp_path, "print('input')", "-", PYTHON_CODE="print('variable')"))["stdout"] == "input\n"
    assert result_of(once(tmp_path, None, PYTHON_CODE="print('variable')"))["stdout"] == "variable\n"
    assert result_of(once(tmp_path, None, "script.py", PYTHON_CODE="print('variable')"))["stdout"] == "file\n"


def test_success(tmp_path: Path) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('made.csv', 'w').write('1')\n6 * 7"
    result = result_of(once(tmp_path, code))
    assert result["success"] is True
    assert (result["stdout"], result["stderr"], result["result"]) == ("out\n", "err\n", "42")
    assert result["error"] is None
    assert result["execution_time"] > 0
    assert [(file["path"], file["size"], file["mime_type"]) for file in result["files"]] == [
        ("made.csv", 1, "text/csv")
    ]


ENDS = [
    ("raise ValueError('no')", (1, "exception", "ValueError", "no")),
    ("x = [1]\nx[3]", (1, "exception", "IndexError", "1 item")),
    ("import sys\nsys.exit(7)", (7, "exception", "SystemExit", "")),
    ("import os\nos._exit(9)", (9, "died", None, "code 9")),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", (139, "died", None, "SIGSEGV")),
    ("def f(:", (1, "exception", "SyntaxError", "invalid syntax")),
]


@pytest.mark.parametrize(("code", "end"), ENDS)
def test_failures(tmp_path: Path, code: str, end: tuple[int, str, str | None, str]) -> None:
    exit_code, kind, name, text = end
    result = result_of(once(tmp_path, code))
    assert result["success"] is False
    assert result["exit_code"] == exit_code
    assert result["error"]["kind"] == kind
    assert result["error"].get("type") == name
    assert text in result["error"]["message"] + result["error"].get("hint", "")
    assert result["restarted"] is (kind == "died")


def test_exit_zero_is_success(tmp_path: Path) -> None:
    result = result_of(once(tmp_path, "import sys\nsys.exit(0)"))
    assert result["success"] is True


TIMEOUT = "import time\nprint('before', flush=True)\n{body}"


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(60)",
        "while True: pass",
        "while True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass",
    ],
    ids=["sleep", "loop", "stubborn"],
)
def test_time_limit(tmp_path: Path, body: str) -> None:
    begun = time.monotonic()
    result = result_of(once(tmp_path, TIMEOUT.format(body=body), EXECUTION_TIMEOUT="1.5"))
    assert time.monotonic() - begun < 45
    assert result["exit_code"] == 124
    assert result["stdout"] == "before\n"
    assert result["error"]["kind"] == "timeout"
    assert "1.5 s" in result["error"]["message"]
    assert "EXECUTION_TIMEOUT" in result["error"]["hint"]


def test_nothing_outlives_the_run(tmp_path: Path) -> None:
    code = (
        "import os, time\npid = os.fork()\nif pid == 0:\n    os.setsid()\n    time.sleep(300)\n"
        "open('pid', 'w').write(str(pid))"
    )
    result_of(once(tmp_path, code))
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_forged_result_has_no_effect(tmp_path: Path) -> None:
    line = json.dumps({"success": True, "exit_code": 0, "stdout": "all well"})
    result = result_of(
        once(tmp_path, f"print({line!r})\nimport os\nos.write(1, {line.encode()!r})\nraise SystemExit(3)")
    )
    assert result["exit_code"] == 3
    assert result["success"] is False
    assert line in result["stdout"]


def test_long_output(tmp_path: Path) -> None:
    code = "print('ä' * 100_000, end='')"
    result = result_of(once(tmp_path, code, "--max-output", "2001"))
    assert result["truncated"] is True
    assert "bytes left out; the whole is in " in result["stdout"]
    assert "\ufffd" not in result["stdout"]
    assert len(result["stdout"].encode()) < 2300
    plain = once(tmp_path, code, "--plain", "--max-output", "2001")
    assert plain.stdout.decode() == "ä" * 100_000


def test_plain(tmp_path: Path) -> None:
    done = once(tmp_path, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nraise KeyError('k')", "--plain")
    assert done.returncode == 1
    assert done.stdout == b"out\n"
    assert done.stderr.startswith(b"err\nTraceback")
    assert b"KeyError: 'k'" in done.stderr
    done = once(tmp_path, "import sys\nsys.exit(5)", "--plain")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"", b"")
    done = once(
        tmp_path, "import os\nos.write(1, b'\\xff\\x00')\nimport time\ntime.sleep(60)", "--plain", "--timeout", "1"
    )
    assert done.returncode == 124
    assert b"stopped at its limit of 1 s" in done.stderr


MISUSE = [
    ((), {}, b"there is no script"),
    (("missing.py",), {}, b"cannot be read"),
    (("--timeout", "0"), {"PYTHON_CODE": "1"}, b"above 0"),
    ((), {"PYTHON_CODE": "1", "EXECUTION_TIMEOUT": "soon"}, b"EXECUTION_TIMEOUT is 'soon'"),
    (("--nothing",), {"PYTHON_CODE": "1"}, b"unrecognized"),
]


@pytest.mark.parametrize(("arguments", "environment", "told"), MISUSE)
def test_misuse(tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], told: bytes) -> None:
    done = once(tmp_path, None, *arguments, **environment)
    assert done.returncode == 2
    assert done.stdout == b""
    assert told in done.stderr


def test_code_does_not_see_how_it_came(tmp_path: Path) -> None:
    code = "import os\n'PYTHON_CODE' in os.environ"
    assert result_of(once(tmp_path, None, PYTHON_CODE=code))["result"] == "False"


def test_a_signal_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", str(MAIN), "--once"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"import time\nprint('begun', flush=True)\nopen('begun', 'w').close()\ntime.sleep(300)")
        process.stdin.close()
        until = time.monotonic() + 60
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        result = json.loads(process.stdout.read())
        assert process.wait(60) == 130
    assert result["exit_code"] == 130
    assert result["stdout"] == "begun\n"
    assert result["error"]["kind"] == "cancelled"
