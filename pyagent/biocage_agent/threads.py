"""Ends the threads that an interrupted cell has started.

SIGINT reaches the main thread only. So that nothing of a cell goes on after
its time limit, its threads get SystemExit as well, which Python ends silently.
A thread that waits inside C code gets it when it returns from there.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = [ctypes.c_ulong, ctypes.py_object]
_WITHIN = 0.3
_STEP = 0.01
_frames = sys._current_frames  # noqa: SLF001 - kept: user code may replace it
_clock, _pause = time.monotonic, time.sleep
_main = threading.main_thread().ident


def running() -> set[int]:
    """Name the threads that run Python code now."""
    return set(_frames())


def end_new(before: set[int]) -> int:
    """End every thread that is not in `before`; tell how many are still there after a short wait."""
    deadline = _clock() + _WITHIN
    told: set[int] = set()
    while True:
        left = running() - before - {_main}
        for ident in left - told:
            _set_exception(ident, SystemExit)
        told |= left
        if not left or _clock() > deadline:
            return len(left)
        _pause(_STEP)
