"""Tracebacks, lines, hints, notebook spellings."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from host import Host


@pytest.mark.parametrize(
    ("code", "error", "lines", "shown"),
    [
        ("a = 1\nb = 0\n\n\nc = a / b\n", "ZeroDivisionError", {5}, "c = a / b"),
        ("x = 1\ny = 2\nundefined_name\n", "NameError", {3}, "undefined_name"),
        ("def f():\n    pass\n\n(1 +\n 2 / 0)", "ZeroDivisionError", {4, 5}, ""),
        ("print('must not run')\nx = = 1", "SyntaxError", {2}, "x = = 1"),
        ("x = 1\ny = (2 +\nz = 3\n", "SyntaxError", {2, 3}, ""),
        ("print('unterminated", "SyntaxError", {1}, ""),
        ("def f():\nreturn 1\n", "IndentationError", {2}, ""),
        ("a = 1\n  b = 2", "IndentationError", {2}, ""),
        ("x = 1\nreturn 5", "SyntaxError", {2}, ""),
        ("yield 1", "SyntaxError", {1}, ""),
        ("src = '1 +'\n\neval(src)", "SyntaxError", {3}, "eval(src)"),
        ("code = 'a = 1\\nb ='\n\n\nexec(code)", "SyntaxError", {4}, "exec(code)"),
        ("import json\njson.loads('{')", "JSONDecodeError", {2}, "json.loads"),
        ("class E(Exception):\n    def __str__(self): raise ValueError('x')\n\nraise E('x')", "E", {4}, "raise E"),
        ("raise Exception(object(), b'\\xff', float('nan'), {1, 2})", "Exception", {1}, ""),
        ("def g(): return 1 / 0\n\ng()", "ZeroDivisionError", {1}, "g()"),
        ("[1 / n for n in (1, 0)]", "ZeroDivisionError", {1}, ""),
        ("x = 3\ntotal = 1 +\u00a01", "SyntaxError", {2}, "U+00A0"),
        ("x = 1\n\u200bprint(x)", "SyntaxError", {2}, "U+200B"),
        ("async def f(): raise KeyError('k')\n\nawait f()", "KeyError", {1}, "await f()"),
        ("assert 1 == 2, 'no'", "AssertionError", {1}, "assert 1 == 2"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", {1}, ""),
        ("raise GeneratorExit", "GeneratorExit", {1}, ""),
        (
            "if 1:\n " * 1 + "".join("\n" + " " * n + "if 1:" for n in range(1, 110)),
            "IndentationError",
            set(range(1, 130)),
            "",
        ),
    ],
)
def test_errors_have_a_line_and_their_source(host: Host, code: str, error: str, lines: set[int], shown: str) -> None:
    result = host.run(code)
    assert (result.status, result.error) == ("error", error)
    assert result.line in lines
    assert shown in result.traceback
    assert "\x1b[" not in result.traceback
    assert "biocage_agent" not in result.traceback
    assert result.stdout == ""


def test_the_line_counts_in_this_cell(host: Host) -> None:
    host.run("\n\n\n\ndef earlier():\n    return 1 / 0")
    result = host.run("x = 1\n\nearlier()")
    assert result.line == 3
    assert "return 1 / 0" in result.traceback


def test_errors_in_modules_of_the_workspace(host: Host) -> None:
    host.write("mod_err.py", b"def go(n):\n    return [][n]  # module line\n")
    result = host.run("import mod_err\n\nmod_err.go(3)")
    assert (result.error, result.line) == ("IndexError", 3)
    assert "mod_err.py" in result.traceback
    assert "# module line" in result.traceback
    host.write("mod_syn.py", b"def broken(:\n    pass\n")
    result = host.run("x = 0\nimport mod_syn")
    assert (result.error, result.line) == ("SyntaxError", 2)
    assert "mod_syn.py" in result.traceback


def test_library_frames_are_summed_up(host: Host) -> None:
    result = host.run("import json\njson.loads('{')")
    assert "frames of libraries" in result.traceback
    assert result.traceback.count("File ") == 1


@pytest.mark.parametrize(
    "name",
    ["pyarrow/table.pxi", "pandas/_libs/x.pyx", "<frozen importlib._bootstrap>", "<__array_function__ internals>"],
)
def test_frames_of_extensions_are_those_of_libraries(host: Host, name: str) -> None:
    code = f"""
        import json
        inner = {{}}
        exec(compile("def fail(pairs): return 1 / 0", {name!r}, "exec"), inner)
        def hook(): json.loads('{{}}', object_pairs_hook=inner['fail'])
        exec(compile("def call(f): f()", {name!r}, "exec"), inner)
        inner['call'](hook)
    """
    result = host.run(textwrap.dedent(code))
    assert result.error == "ZeroDivisionError"
    assert result.traceback.count("File ") == 2
    assert "  [1 frame of libraries, the last in " + name + ", line 1, in call]\n" in result.traceback
    notes = [line for line in result.traceback.splitlines() if "of libraries" in line]
    assert len(notes) == 2
    assert notes[1].endswith(f"frames of libraries, the last in {name}, line 1, in fail]")


def test_a_real_pyx_of_the_users_is_no_library(host: Host) -> None:
    code = "exec(compile('def f(): 1 / 0', '/work/own.pyx', 'exec'))\nexec(compile('f()', 'relative.py', 'exec'))"
    assert host.run(code).traceback.count("File ") == 3


def test_chains_and_groups(host: Host) -> None:
    result = host.run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('outer') from e")
    assert "direct cause" in result.traceback
    assert result.traceback.index("ZeroDivisionError") < result.traceback.index("KeyError")
    assert (result.error, result.line) == ("KeyError", 4)
    result = host.run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    undefined")
    assert "During handling" in result.traceback
    result = host.run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('k') from None")
    assert "ZeroDivisionError" not in result.traceback
    host.run("e = ValueError('loop')\ne.__cause__ = e")
    assert host.run("raise e").error == "ValueError"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no exception groups")
def test_groups(host: Host) -> None:
    code = """
        import asyncio
        async def bad(): raise ValueError('inner cause')
        async def main():
            async with asyncio.TaskGroup() as tg: tg.create_task(bad())
        asyncio.run(main())
    """
    result = host.run(textwrap.dedent(code))
    assert result.error == "ExceptionGroup"
    assert "inner cause" in result.traceback
    nested = "g = ValueError('deep')\nfor _ in range(50): g = ExceptionGroup('g', [g] * 10)\nraise g"
    result = host.run(nested)
    assert result.error == "ExceptionGroup"
    assert len(result.traceback) < 32_768


def test_notes_are_shown(host: Host) -> None:
    if sys.version_info >= (3, 11):
        assert "a note" in host.run("e = ValueError('x')\ne.add_note('a note')\nraise e").traceback


def test_many_frames_are_shortened(host: Host) -> None:
    code = """
        def make(i):
            ns = {}
            exec(f'def fn_{i}(nxt):\\n    return nxt()', ns)
            return ns[f'fn_{i}']
        fns = [make(i) for i in range(300)]
        def run(k):
            if k == 300: raise ValueError('bottom')
            return fns[k](lambda: run(k + 1))
        run(0)
    """
    result = host.run(textwrap.dedent(code))
    assert result.error == "ValueError"
    assert "bottom" in result.traceback
    assert "run(0)" in result.traceback
    assert "left out" in result.traceback
    assert len(result.traceback) < 8000


def test_an_error_of_a_pool_has_the_workers_line(host: Host) -> None:
    code = """
        import multiprocessing as mp
        def bad(n):
            return 10 // n  # worker line
        with mp.get_context('fork').Pool(1) as p:
            p.map(bad, [0])
    """
    result = host.run(textwrap.dedent(code))
    assert result.error == "ZeroDivisionError"
    assert "in bad" in result.traceback


@pytest.mark.parametrize(
    "code", ["1" + "+1" * 10_000, "(" * 150 + ")" * 150, "x = [" + "1," * 100_000 + "]", "[" * 5000]
)
def test_code_that_strains_the_compiler(host: Host, code: str) -> None:
    result = host.run(code)
    assert result.status == "ok" or result.error in ("RecursionError", "MemoryError", "SyntaxError")
    assert result.header["restarted"] is False
    assert host.value("1 + 1") == "2"


# Hints: the code, and what the hint has to hold

HINTS = [
    ("value = 1\nvalu", "Did you mean: 'value'"),
    ("import math\nmath.sqr(4)", "Did you mean: 'sqrt'"),
    ("class P:\n    def __init__(self): self.colour = 1\nP().color", "Did you mean: 'colour'"),
    ("json.dumps(1)", "import json"),
    ("np.zeros(3)", "import numpy as np"),
    ("get_ipython().run_line_magic('x', '')", "not IPython"),
    ("import no_such_pkg_abc", "Installed: numpy, pandas"),
    ("import nunpy", "Did you mean: 'numpy'"),
    ("from math import squareroot, sqr", "math has no"),
    ("from collections import OrderdDict", "OrderedDict"),
    ("d = {'alpha': 1, 'beta': 2}\nd['alpa']", "'alpha'"),
    ("d = {}\nd['x']", "empty"),
    ("l = [1, 2]\nl[5]", "2 items"),
    ("l = []\nl[0]", "empty"),
    ("b = 0\n1 / b", "b is 0"),
    ("open('missing.csv')", "there is: here.csv"),
    ("open('heer.csv')", "'here.csv'"),
    ("open('/proc/version', 'w').write('x')", ""),
    ("import subprocess\nsubprocess.run(['no-such-tool'])", "no program"),
    ("def f(a, b): pass\nf(1)", "f(a, b)"),
    ("list = [1]\nlist((1, 2))", "del list"),
    ("1 + 'a'", "convert"),
    ("None.x", "None"),
    ("int('x')", "no number"),
    ("a, b = 1, 2, 3", "number of names"),
    ("b'\\xff'.decode()", "encoding="),
    ("import socket\nsocket.create_connection(('127.0.0.1', 1))", "no network"),
    ("import errno\nraise OSError(errno.ENETUNREACH, 'Network is unreachable')", "sandbox.network"),
    ("def f(n): return f(n + 1)\nf(0)", "end case"),
    ("raise MemoryError", "memory"),
    ("-" * 100_000 + "1", "nests too deeply" if sys.version_info >= (3, 13) else ""),
    ("[]" + "+[]" * 100_000, "nests too deeply"),
    ("x = = 1", "nothing of the cell has run"),
    ("x = (1,", "close it"),
    ("x = 'abc", "string is not closed"),
    ("def f():\nreturn 1", "Indent"),
    ("print 'x'", "parentheses"),
    ("return 5", "not a function"),
    ("input()", "Nobody"),
    ("{[]: 1}", "tuple"),
    ("import json\njson.dumps({1, 2})", "default=str"),
]


@pytest.mark.parametrize(("code", "text"), HINTS)
def test_hints(host: Host, code: str, text: str) -> None:
    host.write("here.csv", b"1")
    result = host.run(code)
    assert result.status in ("error", "ok")
    if text:
        assert text in result.hint, result.traceback


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("a @ b", "shapes"),
        ("a + np.zeros(4)", "shapes"),
        ("if a: pass", ".any()"),
        ("a[7]", "(2, 3)"),
        ("df['colmn']", "'column'"),
        ("pd.DataFrame({'a': [1], 'b': [1, 2]})", "shapes"),
        ("if df.column > 1: pass", ".any()"),
        ("a.reshape(4)", ".size"),
    ],
)
def test_hints_for_arrays_and_frames(host: Host, code: str, text: str) -> None:
    pytest.importorskip("pandas")
    host.run("import numpy as np, pandas as pd\na = b = np.zeros((2, 3))\ndf = pd.DataFrame({'column': [1, 2]})")
    result = host.run(code)
    assert result.status == "error"
    assert text in result.hint, result.traceback


def test_a_hint_runs_no_user_code(host: Host) -> None:
    code = """
        ran = []
        class T(dict):
            def keys(self): ran.append('keys'); return []
            def __len__(self): ran.append('len'); return 0
            def __iter__(self): ran.append('iter'); return iter(())
            def __getattribute__(self, name): ran.append(name); return dict.__getattribute__(self, name)
        class M(type):
            def __getattribute__(cls, name): ran.append(name); return type.__getattribute__(cls, name)
        class A(metaclass=M):
            def __getattr__(self, name): ran.append(name); raise AttributeError(name, name=name, obj=self)
            def __dir__(self): ran.append('dir'); return []
        t, a = T(), A()
        ran.clear()
    """
    host.run(textwrap.dedent(code))
    host.run("t['x']")
    assert host.value("ran") == "[]"
    host.run("a.some")
    assert host.value("[r for r in ran if r not in ('some', '__class__')]") == "[]"


# Notebook spellings


@pytest.mark.parametrize(
    ("code", "stdout", "value"),
    [
        ("%matplotlib inline\nimport math\nmath.sqrt(9)", "", "3.0"),
        ("!echo shell", "shell\n", None),
        ("x = !printf 'a\\nb'\nx", "", "['a', 'b']"),
        ("if True:\n    !echo nested", "nested\n", None),
        ("word = 'hi'\n!echo {word}", "hi\n", None),
        ("%%time\nx = 5\nx", "", "5"),
        ("%time 1 + 1", "", "2"),
        ("%%bash\necho $((1 + 2))\n", "3\n", None),
        ("%pwd", None, None),
        ("%%writefile out.txt\nline\n", "", None),
        ("%env A_NAME=1\nimport os\nos.environ['A_NAME']", "", "'1'"),
        ("x = 7\nx % 4", "", "3"),
        ("x = '''\n!not shell\n%not magic\n'''\nlen(x)", "", "23"),
    ],
)
def test_magics(host: Host, code: str, stdout: str | None, value: str | None) -> None:
    result = host.run(code)
    assert (result.status, result.result) == ("ok", value), result.traceback
    assert stdout is None or result.stdout == stdout


def test_help_timeit_and_unknown_magics(host: Host) -> None:
    assert "number of items" in host.run("len?").stdout
    assert "number of items" in host.run("?len").stdout
    assert "loop" in host.run("%timeit 1 + 1").stdout
    result = host.run("%nosuch 1")
    assert (result.error, "does not exist here" in result.message) == ("NameError", True)
    assert "%pip" in result.hint
    result = host.run("x = 1\n!!!\n= =")
    assert result.error == "SyntaxError"


def test_a_refusal_without_a_file_has_no_hint_about_files(host: Host) -> None:
    result = host.run("import errno\nraise PermissionError(errno.EPERM, 'Operation not permitted')")
    assert result.error == "PermissionError"
    assert "can be written" not in result.hint
