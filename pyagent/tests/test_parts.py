"""Parts of the agent on their own: imports, captures, source, async cells, inspection."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biocage_agent import processes, source, texts
from biocage_agent.capture import Capture, SpoolFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from host import Host

PACKAGE = Path(source.__file__).parent


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_modules_are_small_and_need_only_the_standard_library(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            assert top == "biocage_agent" or top in sys.stdlib_module_names, name


@given(st.lists(st.binary(max_size=400), max_size=20), st.integers(1, 300))
def test_a_capture_keeps_head_and_tail(chunks: list[bytes], half: int) -> None:
    def place() -> str:
        raise OSError("no disk")

    capture = Capture(2 * half, SpoolFile(place, 10_000))
    sent = b""
    for chunk in chunks:
        capture.add(chunk)
        sent += capture.take_head()
    whole = b"".join(chunks)
    offset, tail = capture.tail()
    assert capture.total == len(whole)
    assert sent == whole[:half]
    assert tail == whole[offset:]
    assert offset >= len(sent)
    if len(whole) <= 2 * half:
        assert sent + tail == whole
    else:
        assert half - 3 <= len(tail) <= half
    assert capture.close() is None


@given(st.text(min_size=1), st.integers(100, 400), st.sampled_from([1, 400, 200_000]))
@settings(max_examples=50, deadline=None)
def test_cutting_the_middle(text: str, most: int, times: int) -> None:
    text = (text * times)[: max(times, 1000)]
    whole = text.encode("utf-8", "replace")
    data, cut = texts.bounded(text, most)
    assert len(data) <= most
    assert cut == (len(whole) > most)
    if not cut:
        assert data == whole
        return
    head, _, rest = data.decode("utf-8").rpartition("\n… ")
    number, _, tail = rest.partition(" bytes left out …\n")
    assert int(number) == len(whole) - most
    assert whole.startswith(head.encode())
    assert whole.endswith(tail.encode())
    assert b"".join(texts.pieces(text, most)) == whole[:most]


@given(st.text())
def test_any_text_compiles_or_is_a_syntax_error(text: str) -> None:
    try:
        source.parse(source.normalise(text), "<cell 1>")
    except (SyntaxError, ValueError):
        return


# Processes


def test_a_process_that_has_ended_is_told_from_one_that_lives() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    assert not processes.is_ending(child.pid)
    child.stdin.close()
    end = time.monotonic() + 30
    while not processes.is_ending(child.pid):  # nobody has waited for it: it stays in sight
        assert time.monotonic() < end
        time.sleep(0.01)
    child.wait()
    assert not processes.is_ending(child.pid)


# Async cells


def test_awaiting_at_the_top_level(host: Host) -> None:
    assert host.value("import asyncio\nawait asyncio.sleep(0.01, 'z')") == "'z'"
    code = "async def g():\n    for i in range(3): yield i\n[x async for x in g()]"
    assert host.value(code) == "[0, 1, 2]"
    assert host.run("async with asyncio.timeout(5): pass").status == "ok" or sys.version_info < (3, 11)
    assert host.value("asyncio.run(asyncio.sleep(0, 'run'))") == "'run'"
    assert host.value("await asyncio.sleep(0, 'again')") == "'again'"


def test_a_task_goes_on_in_the_next_cell(host: Host) -> None:
    code = """
        import asyncio
        async def later():
            await asyncio.sleep(0.1)
            return 'task done'
        task = asyncio.create_task(later())
        await asyncio.sleep(0)
    """
    host.run(textwrap.dedent(code))
    assert host.value("await task") == "'task done'"


def test_loops_that_the_program_closes(host: Host) -> None:
    host.run("import asyncio\nawait asyncio.sleep(0)")
    host.run("loop = asyncio.new_event_loop()\nasyncio.set_event_loop(loop)\nloop.close()")
    assert host.value("asyncio.run(asyncio.sleep(0, 'fresh'))") == "'fresh'"
    assert host.value("await asyncio.sleep(0, 'own')") == "'own'"
    host.run("async def f(): asyncio.get_running_loop().stop()\nawait f()")
    assert host.value("await asyncio.sleep(0, 'after')") == "'after'"


def test_a_task_that_failed_unseen_is_made_known(host: Host) -> None:
    code = """
        import asyncio, gc
        async def bad(): raise RuntimeError('task broke')
        t = asyncio.ensure_future(bad())
        await asyncio.sleep(0.02)
        del t
        _ = gc.collect()
    """
    assert "task broke" in host.run(textwrap.dedent(code)).stderr


# Processes


def test_pools(host: Host) -> None:
    code = """
        from multiprocessing import get_context
        def sq(n): return n * n
        with get_context('fork').Pool(2) as p: out = p.map(sq, range(4))
        out
    """
    assert host.value(textwrap.dedent(code)) == "[0, 1, 4, 9]"
    code = "import multiprocessing as mp\nwith mp.Pool(2) as p: out = p.map(sq, [5])\nout"
    assert host.value(code) == "[25]"
    code = """
        from concurrent.futures import ProcessPoolExecutor
        with ProcessPoolExecutor(1) as e: v = e.submit(sq, 7).result(timeout=20)
        v
    """
    assert host.value(textwrap.dedent(code)) == "49"


@pytest.mark.parametrize(
    "code",
    [
        "import os\npid = os.fork()\nif pid == 0: print('child')\nelse: print(os.waitpid(pid, 0)[1])",
        "import os\npid = os.fork()\nif pid == 0: print('child'); display('no'); import sys; sys.exit(0)\nprint(os.waitpid(pid, 0)[1])",  # noqa: E501
        "import os\npid = os.fork()\nif pid == 0: print('child'); os._exit(0)\nprint(os.waitpid(pid, 0)[1])",
    ],
)
def test_a_forked_child_does_not_answer_for_the_worker(host: Host, code: str) -> None:
    result = host.run(code)
    assert (result.status, result.stdout, result.displays) == ("ok", "child\n0\n", [])
    for number in range(3):
        assert host.value(f"{number} + 1") == str(number + 1)
    result = host.run("if os.fork() == 0: raise ValueError('in the child')\nos.wait()[1] >> 8")
    assert (result.result, "in the child" in result.stderr) == ("1", True)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_that_start_anew_know_the_cells(host: Host, method: str) -> None:
    host.run("import math\nFACTOR = 3\nclass P:\n    def __init__(self, n): self.n = n")
    host.run("print('work')\ndef g(p): return P(math.floor(p.n) * FACTOR)\nraise ValueError")
    code = f"""
        from multiprocessing import get_context
        with get_context('{method}').Pool(1) as pool: out = pool.map_async(g, [P(1.5), P(2)]).get(timeout=40)
        [p.n for p in out]
    """
    result = host.run(textwrap.dedent(code))
    assert (result.result, result.stdout) == ("[3, 6]", ""), result.stderr


def test_shared_memory(host: Host) -> None:
    code = """
        from multiprocessing import shared_memory
        shm = shared_memory.SharedMemory(create=True, size=1 << 20)
        shm.buf[:4] = b'data'
        shm.close(); shm.unlink()
        'ok'
    """
    assert host.value(textwrap.dedent(code)) == "'ok'"


# Inspection


def test_inspection(host: Host) -> None:
    code = """
        import math
        number, text, data, none = 5, 'x' * 1000, b'\\xff', None
        items, mapping = [1, 2], {'a': 1}
        big = 10 ** 5000
        class Bad:
            def __repr__(self): raise ValueError
            def __len__(self): raise ValueError
            def __getattr__(self, name): raise ValueError(name)
        class Sneaky(list):
            def __len__(self): raise ValueError
        bad, sneaky = Bad(), Sneaky()
        def f(a, /, b, c=Bad(), *rest, d, e=Bad(), **more) -> 1 / 1: pass
        async def g(*, key): pass
        h = len
        class Meta(type):
            def __getattribute__(cls, name): raise ValueError(name)
        class Odd(metaclass=Meta): pass
        odd = Odd()
        class Text(str):
            def __str__(self): raise ValueError
            __format__ = __add__ = __eq__ = __hash__ = encode = __str__
        def trick(): pass
        trick.__name__ = Text('renamed')
        tricky = type(Text('Tricky'), (), {'__qualname__': Text('Tricky')})()
        lock = __import__('threading').Lock()
        import os.path as path
        math.__name__ = 'renamed'
        globals()['odd \\ud800 name'] = 1
    """
    host.run(textwrap.dedent(code))
    reply = host.call("inspect_request", limit=100).header
    found = {item["name"]: (item["type"], item["summary"]) for item in reply["variables"]}
    assert found["number"] == ("int", "5")
    assert found["items"] == ("list", "2 items")
    assert found["mapping"] == ("dict", "1 items")
    assert found["none"] == ("NoneType", "None")
    assert found["math"] == ("module", "renamed")
    assert found["path"] == ("module", "posixpath")
    assert found["f"] == ("function", "f(a, /, b, c=…, *rest, d, e=…, **more)")
    assert found["g"] == ("function", "async g(*, key)")
    assert found["h"] == ("builtin_function_or_method", "len(…)")
    assert found["Bad"] == ("type", "Bad")
    assert found["bad"] == ("Bad", "object of class Bad")
    assert found["Odd"] == ("Meta", "Odd")
    assert found["odd"] == ("Odd", "object of class Odd")
    assert found["lock"] == ("lock", "object of class _thread.lock")
    assert found["trick"] == ("function", "renamed()")
    assert found["tricky"] == ("Tricky", "object of class Tricky")
    assert found["sneaky"] == ("Sneaky", "object of class Sneaky")
    assert "bits" in found["big"][1]
    assert "1000 long" in found["text"][1]
    assert (reply["more"], reply["cwd"]) == (0, str(host.workspace))
    assert host.call("inspect_request", limit=2).header["more"] == len(found) - 2


def test_inspection_of_arrays_and_frames(host: Host) -> None:
    pytest.importorskip("pandas")
    host.run(
        "import numpy as np, pandas as pd\na = np.zeros((2, 3))\ndf = pd.DataFrame({'x': [1], 'y': [2]})\ns = df['x']"
    )
    found = {item["name"]: item["summary"] for item in host.call("inspect_request", limit=9).header["variables"]}
    assert found["a"] == "shape (2, 3), float64"
    assert found["df"] == "1 rows x 2 columns: x, y"
    assert found["s"] == "1 values, int64"


def test_inspection_is_bounded(host: Host) -> None:
    host.run("for n in range(2000): globals()[f'name_{n}_' + 'é' * 80] = 'ü' * 500")
    reply = host.call("inspect_request", limit=1000).header
    assert reply["status"] == "ok"
    assert len(reply["variables"]) + reply["more"] == 2001


# Time


def test_a_live_cell_is_fast(fresh: Callable[..., Host]) -> None:
    host = fresh()
    host.start()
    times = []
    for _ in range(300):
        started = time.perf_counter()
        host.run("x = 1")
        times.append(time.perf_counter() - started)
    assert min(times) < 0.005
    assert sorted(times)[150] < 0.02


def test_locale_and_zone(host: Host) -> None:
    result = host.run("print('héllo 世界 🎉')\nimport sys, time\n(sys.getfilesystemencoding(), time.tzname[0])")
    assert (result.stdout, result.result) == ("héllo 世界 🎉\n", "('utf-8', 'UTC')")


def test_limits_that_the_program_sets_on_itself(host: Host) -> None:
    host.run("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))")
    assert host.run("1 + 1").status in ("ok", "error", "died")
    host.reset()
    assert host.value("1 + 1") == "2"
