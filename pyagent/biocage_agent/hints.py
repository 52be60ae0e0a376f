"""One sentence that says what to do next about an exception.

A hint looks at the failing line and at plain values only; it never runs code
of the user's.
"""

from __future__ import annotations

import builtins
import difflib
import errno
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from biocage_agent import failing
from biocage_agent.hints_values import FOR_MESSAGES, ambiguous_name, key_hint, zero_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from biocage_agent.zygote import WorkerSetup

_MOST_NAMES = 12
_NETWORK = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ENETDOWN, errno.ECONNRESET, errno.ETIMEDOUT}
)
_NETWORK_CLASSES = frozenset(
    {"gaierror", "URLError", "ConnectionError", "ConnectTimeout", "ConnectError", "ClientConnectorError", "SSLError"}
)
_NETWORK_OFF = (
    "The sandbox has no network unless the server's configuration sets sandbox.network. "
    "Put the data into the workspace instead (file_write or file_expose)."
)
_NETWORK_ON = (
    "The sandbox has a network (sandbox.network: full), but this address does not answer: check its name and port. "
    "localhost is the sandbox itself, not the machine around it."
)
_TOO_NESTED = "An expression nests too deeply for the compiler: build it with a loop, or read it as data (json, ast)."
_DIST = {"cv2": "opencv-python", "sklearn": "scikit-learn", "PIL": "pillow", "yaml": "pyyaml", "bs4": "beautifulsoup4"}


def close(word: str, words: Iterable[str], most: int = 1) -> list[str]:
    """Words much like word."""
    candidates = [item for item in words if type(item) is str and not item.startswith("__")][:5000]
    return difflib.get_close_matches(word, candidates, most, 0.7)


def _listed(words: Iterable[str]) -> str:
    shown = sorted(words)
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ", ".join(shown[:_MOST_NAMES]) + more


class Hinter:
    """Makes hints; knows the namespace and what is installed."""

    def __init__(self, namespace: dict[str, Any], setup: WorkerSetup) -> None:
        """Both are only read."""
        self._namespace = namespace
        self._setup = setup
        self._table: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
            (ModuleNotFoundError, self._module),
            (ImportError, self._import),
            (NameError, self._name),
            (AttributeError, self._attribute),
            (IndentationError, self._indentation),
            (SyntaxError, self._syntax),
            (UnicodeError, self._unicode),
            ((KeyError, IndexError), lambda error: key_hint(error, self._frame(error))),
            (ZeroDivisionError, lambda error: zero_hint(self._frame(error))),
            (RecursionError, self._recursion),
            (MemoryError, self._memory),
            (FileNotFoundError, self._missing_file),
            (PermissionError, self._permission),
            (IsADirectoryError, lambda _error: "The path is a directory; name a file in it (os.listdir shows them)."),
            (EOFError, lambda _error: "Nobody can type an answer here; put the value into the code."),
            (OSError, self._system),
            (TypeError, self._type),
        )

    def hint(self, error: BaseException) -> str:
        """A hint, or ""."""
        try:
            return self._hint(error)[:1000]
        except Exception:  # noqa: BLE001 - the objects are the user's; no hint is better than a second error
            return ""

    def _hint(self, error: BaseException) -> str:
        if type(error).__name__ in _NETWORK_CLASSES:
            return self._unreachable()
        for kinds, make in self._table:
            if isinstance(error, kinds):
                text = make(error)
                if text:
                    return text
                break
        message = str(error)
        for pattern, hint in FOR_MESSAGES:
            if re.search(pattern, message):
                return hint
        inner = getattr(error, "exceptions", None)
        if type(inner) is tuple and inner:
            return self._hint(inner[0])
        return ""

    def _unreachable(self) -> str:
        return _NETWORK_ON if self._setup.network else _NETWORK_OFF

    @staticmethod
    def _frame(error: BaseException) -> FrameType | None:
        return failing.user_frame(error)

    def _name(self, error: NameError) -> str:
        name = error.name or ""
        if name == "get_ipython":
            return "This is plain Python, not IPython; leave get_ipython() out (magics such as %pip and !cmd work)."
        frame = self._frame(error)
        near = close(name, [*(frame.f_locals if frame else ()), *self._namespace, *vars(builtins)])
        if near:
            return f"Did you mean: '{near[0]}'?"
        if name in sys.stdlib_module_names or name in self._setup.packages:
            return f"Write `import {name}` first."
        if name in ("np", "pd", "plt", "sns"):
            full = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sns": "seaborn"}[name]
            return f"Write `import {full} as {name}` first."
        return "Define it first; a restart or reset loses all variables." if name else ""

    def _attribute(self, error: AttributeError) -> str:
        name, owner = error.name or "", error.obj
        near = close(name, failing.attribute_names(owner))
        if near:
            return f"Did you mean: '{near[0]}'?"
        if owner is None and "NoneType" in str(error):
            return (
                "The value is None: look at what the call before it returned (methods that work in place return None)."
            )
        return ""

    def _module(self, error: ModuleNotFoundError) -> str:
        name = (error.name or "").partition(".")[0]
        if error.name and "." in error.name and name in sys.modules:
            near = close(error.name.rpartition(".")[2], failing.attribute_names(sys.modules[name]))
            return f"{name} is installed but has no {error.name}" + (f"; did you mean '{near[0]}'?" if near else ".")
        near = close(name, self._setup.packages) or close(name, sys.stdlib_module_names)
        start = f"Did you mean: '{near[0]}'? " if near else ""
        wanted = _DIST.get(name, name)
        there = f" Installed: {_listed(self._setup.packages)}." if self._setup.packages else ""
        if self._setup.network:
            return f"{start}{wanted} is not installed; `%pip install {wanted}` gets it for this session.{there}"
        return (
            f"{start}{wanted} is not installed and cannot be fetched from inside (no network); use what is installed, "
            f"or have it added to the environment (biocage env build).{there}"
        )

    def _import(self, error: ImportError) -> str:
        match = re.search(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
        if match is None:
            return ""
        name, module = match.groups()
        near = close(name, failing.attribute_names(sys.modules.get(module)))
        return f"Did you mean: '{near[0]}'?" if near else f"{module} has no {name}; its version may be another one."

    @staticmethod
    def _indentation(error: IndentationError) -> str:
        if "expected an indented block" in str(error.msg):
            return "Indent the lines that belong to the statement above."
        return "Use the same indentation (four spaces) for all lines of a block."

    @staticmethod
    def _syntax(error: SyntaxError) -> str:  # noqa: PLR0911
        message = str(error.msg)
        if "was never closed" in message or "unexpected EOF" in message:
            return "A bracket is open: close it."
        if "unterminated" in message:
            return "A string is not closed: end it, or use three quotes for several lines."
        if "U+" in message:
            return (
                "The line holds a character that Python does not take; type the line anew with plain spaces and quotes."
            )
        if "outside function" in message:
            return "A cell is not a function: leave return and yield out; the last expression's value is shown."
        text = (error.text or "").lstrip()
        if text.startswith(("%", "!", "?")):
            return "Only a few notebook commands work here (!cmd, %pip, %cd, %timeit); write plain Python."
        if text.startswith("print ") or "Missing parentheses" in message:
            return "This is Python 3: print needs parentheses."
        return "Look at this line and at the end of the one before it; nothing of the cell has run."

    @staticmethod
    def _unicode(error: UnicodeError) -> str:
        if isinstance(error, UnicodeDecodeError):
            return (
                f"The bytes are not {error.encoding}: open the file with encoding='latin-1' or another one, "
                "with errors='replace', or in binary mode."
            )
        return "The text holds characters that the encoding lacks; use encoding='utf-8' or errors='replace'."

    @staticmethod
    def _recursion(error: RecursionError) -> str:
        if str(error).endswith(("during compilation", "during ast construction")):
            return _TOO_NESTED
        limit = sys.getrecursionlimit()
        return f"The function calls itself without end, or deeper than {limit}: check its end case, or use a loop."

    def _memory(self, error: MemoryError) -> str:
        if str(error).startswith("Parser stack overflowed"):
            return _TOO_NESTED
        size = f" ({self._setup.memory_bytes >> 20} MiB)" if self._setup.memory_bytes else ""
        return f"The sandbox's memory{size} is used up; earlier variables are kept: del what is large, work in pieces."

    @staticmethod
    def _missing_file(error: FileNotFoundError) -> str:
        path = error.filename
        if type(path) is not str:
            return ""
        folder, name = os.path.split(os.path.abspath(path))
        if os.path.sep not in path and failing.is_command(error):
            return f"There is no program '{path}' here; subprocess finds only what the environment has."
        while folder != "/" and not os.path.isdir(folder):
            folder, name = os.path.split(folder)
        names = os.listdir(folder)[:2000]
        near = close(name, names)
        start = f"Did you mean '{near[0]}'? " if near else ""
        shown = [item for item in names if not item.startswith(".")]
        there = _listed(shown) if shown else "nothing"
        return f"{start}In {folder} there is: {there}. Relative paths begin at {os.getcwd()}."

    def _permission(self, error: PermissionError) -> str:
        return self._writable() if error.filename is not None else ""

    def _writable(self) -> str:
        return f"Only {self._setup.workspace}, {self._setup.temp} and read-write exposures can be written."

    def _system(self, error: OSError) -> str:
        if error.errno in _NETWORK or "name resolution" in str(error):
            return self._unreachable()
        if error.errno == errno.ENOSPC:
            return "The sandbox's disk is full: delete files you no longer need (os.remove)."
        if error.errno == errno.EROFS:
            return self._writable()
        if error.errno in (errno.EAGAIN, errno.EMFILE, errno.ENOMEM):
            return (
                "A limit of the sandbox is reached: close files, end processes and threads that are no longer needed."
            )
        return ""

    def _type(self, error: TypeError) -> str:
        shadowed = ambiguous_name(error, self._frame(error), self._namespace)
        return shadowed or ""
