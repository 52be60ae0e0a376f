"""What is kept from cell to cell."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from host import Host


def test_main_is_the_real_main(host: Host) -> None:
    code = "import sys\nD = type('D', (), {})\nm = 42\n(D.__module__, sys.modules['__main__'].m, __name__)"
    assert host.value(code) == "('__main__', 42, '__main__')"
    assert host.value("from __main__ import m as again\nagain") == "42"


def test_variables_and_context_are_kept(host: Host) -> None:
    host.run("import contextvars, decimal\ncv = contextvars.ContextVar('cv')\n_ = cv.set('kept')")
    host.run("decimal.getcontext().prec = 5")
    assert host.value("cv.get(), decimal.Decimal(1) / 3") == "('kept', Decimal('0.33333'))"


def test_what_ran_before_an_error_stays(host: Host) -> None:
    result = host.run("a = 1\nb = 2\nraise ValueError('stop here')\nc = 3")
    assert (result.status, result.error, result.line, result.message) == ("error", "ValueError", 3, "stop here")
    assert host.value("(a, b, 'c' in globals())") == "(1, 2, False)"


def test_source_of_earlier_cells(host: Host) -> None:
    host.run(
        "def area(r):\n    # close enough\n    return 3 * r\n\nclass S:\n    def sides(self):\n        return 4  # four"
    )
    result = host.run("import inspect\nprint(inspect.getsource(area), inspect.getsource(S.sides))")
    assert "close enough" in result.stdout
    assert "# four" in result.stdout


def test_main_guard_and_file(host: Host) -> None:
    assert host.run("if __name__ == '__main__':\n    print('main ran')").stdout == "main ran\n"
    assert host.value("import os\nos.path.dirname(os.path.abspath(__file__))") == repr(str(host.workspace))


def test_future_imports_hold_for_later_cells(host: Host) -> None:
    assert host.run("def f(a: Nope): pass").error == "NameError"
    host.run("from __future__ import annotations\nx: Undefined = 3")
    assert host.value("def f(a: Nope) -> Nada: pass\nf.__annotations__") == "{'a': 'Nope', 'return': 'Nada'}"
    assert host.value("(lambda: 5)()") == "5"


def test_built_ins_come_back(host: Host) -> None:
    host.run("__builtins__ = {}")
    assert host.run("print(len('abc'))").stdout == "3\n"
    host.run("globals().clear()")
    assert host.run("display(print)").status == "ok"
    assert host.value("import builtins\n__builtins__ is builtins") == "True"


def test_pickling_of_what_cells_define(host: Host) -> None:
    host.run("class P:\n    def __init__(self, n): self.n = n\ndef triple(n):\n    return 3 * n")
    code = """
        import pickle, copy
        blob = pickle.dumps((P(7), triple))
        p, t = pickle.loads(blob)
        (type(p) is P, p.n, t(4), copy.deepcopy(triple) is triple)
    """
    assert host.value(textwrap.dedent(code)) == "(True, 7, 12, True)"


def test_comprehensions_and_late_names(host: Host) -> None:
    assert host.value("n = 'outer'\n[n for n in [5]]") == "[5]"
    assert host.value("n") == "'outer'"
    host.run("def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nalias = f")
    assert host.value("def f(n):\n    return 'ab'\nalias(3)") == "'ababab'"


def test_modules_written_a_moment_ago(host: Host) -> None:
    result = host.run("import helper_c")
    assert (result.error, result.line) == ("ModuleNotFoundError", 1)
    for value in range(1, 5):
        host.write("helper_c.py", f"VALUE = {value}\n".encode())
        code = "import helper_c, importlib\nimportlib.reload(helper_c).VALUE"
        assert host.value(code) == str(value)


def test_no_stale_bytecode_is_written(host: Host) -> None:
    host.write("cfg.py", b"LIMIT = 1\n")
    assert host.value("import cfg\ncfg.LIMIT") == "1"
    assert [entry["path"] for entry in host.listing(recursive=True)] == ["cfg.py"]


def test_working_directory_stays_and_may_vanish(host: Host) -> None:
    host.run("import os\nbase = os.getcwd()\nos.makedirs('sub')\nos.chdir('sub')")
    assert host.value("os.path.basename(os.getcwd())") == "'sub'"
    host.run("os.rmdir('../sub')")
    assert host.value("1 + 1") == "2"
    assert host.run("1 / 0").error == "ZeroDivisionError"
    host.write("still.txt", b"ok")
    assert host.value("os.chdir(base)\nopen('still.txt').read()") == "'ok'"


def test_random_numbers_differ_between_interpreters(host: Host) -> None:
    pytest.importorskip("numpy")
    code = "import random, numpy\n(random.random(), numpy.random.rand())"
    seen = set()
    for _ in range(3):
        seen.add(host.value(code))
        host.reset()
    assert len(seen) == 3


def test_decimal_names_are_free_and_none_of_ours_is_there(host: Host) -> None:
    names = ["code", "ns", "request", "result", "session", "stderr", "stdout"]
    code = " = ".join(names) + " = 1\nsorted(k for k in globals() if not k.startswith('_'))"
    assert host.value(code) == repr(names)
    assert host.value("1 + 1") == "2"


@pytest.mark.parametrize(
    "damage",
    [
        "print = open = len = str = repr = type = isinstance = list = dict = Exception = None",
        "import json, time, traceback, io\njson.dumps = json.loads = traceback.format_exception = io.StringIO = None",
        "import time\ntime.time = time.monotonic = lambda: 0",
        "import builtins\nbuiltins.repr = lambda o: 'hacked'",
    ],
)
def test_damage_to_names_is_survived(host: Host, damage: str) -> None:
    assert host.run(damage).status == "ok"
    assert host.value("6 * 7") == "42"
    result = host.run("1 / 0")
    assert (result.error, result.line) == ("ZeroDivisionError", 1)


@pytest.mark.parametrize(
    "damage",
    [
        "import builtins\nbuiltins.len = None",
        "import builtins\nfor k in dir(builtins):\n    setattr(builtins, k, None)",
        (
            "import sys\nfor m in [m for m in sys.modules if m not in ('sys', 'builtins', '__main__')]:\n"
            "    del sys.modules[m]\nsys.path.clear()"
        ),
        (
            "import sys, types\nfor m in list(sys.modules):\n    sys.modules[m] = types.ModuleType(m)\n"
            "sys.meta_path.clear()"
        ),
        (
            "import gc\nfor o in gc.get_objects():\n"
            "    if type(o) is dict and o.get('__name__', '').startswith('biocage'):\n        o.clear()"
        ),
    ],
)
def test_a_ruined_interpreter_is_mended_by_reset(host: Host, damage: str) -> None:
    host.run(damage, timeout=10)
    host.run("1 + 1", timeout=10)
    host.reset()
    assert host.value("import json, math\njson.dumps([math.sqrt(16)])") == "'[4.0]'"


def test_files_in_home_do_not_poison_the_next_worker(host: Host) -> None:
    code = """
        import os, site
        d = site.getusersitepackages()
        os.makedirs(d, exist_ok=True)
        for n in ('usercustomize.py', 'sitecustomize.py', 'zz.pth'):
            open(os.path.join(d, n), 'w').write('import builtins; builtins.POISON = 1\\n')
        for k in ('LD_PRELOAD', 'PYTHONSTARTUP', 'PYTHONPATH', 'PYTHONHOME', 'PATH'):
            os.environ[k] = '/tmp/evil'
        os._exit(7)
    """
    assert host.run(textwrap.dedent(code)).death["exit_code"] == 7
    assert host.value("import builtins, os\n(hasattr(builtins, 'POISON'), os.environ.get('LD_PRELOAD'))") == (
        "(False, None)"
    )


def test_the_source_of_what_cells_define(host: Host) -> None:
    first = "class Plain:\n    x = 1\n"
    second = "y = 2\nclass Busy:\n    def work(self):\n        return 1\n\n    class Inner:\n        z = 3\n"
    host.run(first)
    host.run(second)
    host.run("def f():\n    return 5\nBusy.extra = f\n'class Plainer: pass'")
    host.run("import inspect, json")
    for expression, source in (
        ("Plain", first),
        ("Busy", second[6:]),
        ("Busy.work", "    def work(self):\n        return 1\n"),
        ("Busy.Inner", "    class Inner:\n        z = 3\n"),
        ("f", "def f():\n    return 5\n"),
    ):
        assert host.value(f"inspect.getsource({expression})") == repr(source), expression
    host.run("class Plain:\n    x = 2\n")
    assert host.value("inspect.getsource(Plain)") == repr("class Plain:\n    x = 2\n")
    assert "class JSONDecoder" in str(host.value("inspect.getsource(json.JSONDecoder)"))
    assert host.run("inspect.getsource(type('Made', (), {}))").error in ("OSError", "TypeError")
