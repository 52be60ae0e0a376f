"""Runs one cell after the other and tells each one's outcome."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # plain functions: user code cannot reach into them
import builtins
import contextlib
import inspect
import linecache
import os
import signal
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from biocage_agent import cellsource, display, figures, hints, source, spawning, texts, threads, tracebacks

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from types import CodeType, ModuleType

    from biocage_agent.frames import Frame, Header
    from biocage_agent.limits import Ceiling
    from biocage_agent.streams import Streams
    from biocage_agent.zygote import WorkerSetup

Send = Callable[["Header", bytes], None]

_SIGINT = int(signal.SIGINT)
_MASK = (_SIGINT,)
_CHUNK = 512 << 10
_TRIES = 100
_STOPS = 5
_NUMBERS = (int, bool)
_EXIT_BROKEN = 70
_MAX_SOURCE = 16 << 20
_MAX_SOURCES = 5000
_CO_COROUTINE = inspect.CO_COROUTINE


def _block_interrupts() -> None:
    """End the time in which SIGINT is let in; one in the very last moment comes too late."""
    for _ in range(_TRIES):
        try:
            _signal.pthread_sigmask(_signal.SIG_BLOCK, _MASK)
        except BaseException:  # noqa: BLE001, S112 - what a handler of the user's raises
            continue
        return
    os._exit(_EXIT_BROKEN)


def _awaits(code: CodeType | None) -> bool:
    """Tell whether the code is a coroutine's."""
    return code is not None and bool(code.co_flags & _CO_COROUTINE)


class Outcome:
    """What became of a cell."""

    def __init__(self) -> None:
        """Nothing has gone wrong, no value yet."""
        self.error: Header | None = None
        self.texts: dict[str, str] = {}


class Runner:
    """The user's namespace and everything that outlasts a cell."""

    def __init__(self, module: ModuleType, streams: Streams, setup: WorkerSetup, ceiling: Ceiling) -> None:
        """Take over `__main__`."""
        self.namespace = module.__dict__
        self.shown = display.SHOWN
        self._streams = streams
        self._setup = setup
        self._ceiling = ceiling
        self._loop: AbstractEventLoop | None = None
        self._sources: OrderedDict[str, int] = OrderedDict()
        self._source_size = 0
        self._hinter = hints.Hinter(self.namespace, setup)
        self._counter = 0
        self._future = 0  # `from __future__` of earlier cells
        self._pid = os.getpid()
        spawning.install(self._texts)
        cellsource.install(lambda: self._sources)

    def _texts(self) -> list[str]:
        """The cells so far."""
        return ["".join(linecache.getlines(name)) for name in self._sources]

    def run(self, send: Send, frame: Frame) -> None:
        """Run one cell and send its reply."""
        nonce = frame.header["nonce"]
        most = frame.header["max_output"]

        def show(mime: str, data: bytes) -> None:
            for offset in range(0, max(len(data), 1), _CHUNK):
                chunk = data[offset : offset + _CHUNK]
                last = offset + _CHUNK >= len(data)
                send({"type": "display", "nonce": nonce, "mime": mime, "last": last}, chunk)

        self.shown.begin(show)
        self._prepare(late_interrupt=frame.header["late_interrupt"])
        outcome = self._guarded(frame)
        if os.getpid() != self._pid:
            self._end_child(outcome)
        self._streams.flush()
        try:
            self._reply(send, nonce, most, frame.header["spool_bytes"], outcome)
        except MemoryError as error:
            outcome = Outcome()
            self._fail(error, "", outcome)
            self._reply(send, nonce, most, 0, outcome)

    def _end_child(self, outcome: Outcome) -> NoReturn:
        """End a process that the program forked and let run to the end of the cell."""
        code = 0
        if outcome.error is not None:
            code = int(outcome.error.get("exit_code", 1))
            with contextlib.suppress(Exception):
                sys.stderr.write(outcome.texts.get("traceback", ""))
        self._streams.flush()
        os._exit(code)

    def tidy(self) -> None:
        """Put right what a cell may have left behind; its reply is out by now, so that nobody waits for this."""
        self._streams.mend()
        self._ceiling.before_cell()
        self.namespace.pop("__warningregistry__", None)
        self.namespace["__builtins__"] = builtins
        if _signal.getsignal(_SIGINT) is not _signal.default_int_handler:
            _signal.signal(_SIGINT, _signal.default_int_handler)
        self._drop_interrupts()

    def _drop_interrupts(self) -> None:
        while _signal.sigtimedwait(_MASK, 0) is not None:
            pass

    def _prepare(self, *, late_interrupt: bool) -> None:
        """See what came since the last cell: files of the host, an interrupt that was meant for that cell."""
        if late_interrupt:
            self._drop_interrupts()
        for place, finder in sys.path_importer_cache.items():
            if finder is not None and not place.startswith((sys.prefix, sys.base_prefix)):
                finder.invalidate_caches()  # type: ignore[attr-defined]

    def _guarded(self, frame: Frame) -> Outcome:
        """Run with SIGINT let in for exactly this time."""
        outcome = Outcome()
        self._counter = frame.header["number"] or self._counter + 1
        name = f"<cell {self._counter}>"
        before = threads.running()
        try:
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _MASK)
            self._execute(source.normalise(source.decode(frame.body)), name, outcome)
        except SystemExit as error:
            self._fail(error, name, outcome)
        except BaseException as error:  # noqa: BLE001 - whatever user code raises is told
            self._fail(error, name, outcome)
            self._draw_after(error)
            if issubclass(type(error), KeyboardInterrupt):  # not isinstance, which asks the object
                with contextlib.suppress(BaseException):
                    threads.end_new(before)
        _block_interrupts()
        return outcome

    def _execute(self, text: str, name: str, outcome: Outcome) -> None:
        self._register(name, text)
        cell = source.parse(text, name, self._future)
        self._future = cell.future
        if cell.text is not text:
            self._register(name, cell.text)
        if _awaits(cell.body) or _awaits(cell.last):
            value = self._in_loop(cell)
        else:
            if cell.body is not None:
                eval(cell.body, self.namespace)  # noqa: S307 - this is what the sandbox is for
            value = None if cell.last is None else eval(cell.last, self.namespace)  # noqa: S307
        if value is not None:
            self.shown.rich(value)
            outcome.texts["result"] = texts.plain(repr(value))
            del value
        self._draw_open_figures(name, outcome)

    def _draw_open_figures(self, name: str, outcome: Outcome) -> None:
        errors = figures.show_open(self.shown)
        if errors:
            self._fail(errors[0], name, outcome)

    def _draw_after(self, error: BaseException) -> None:
        """After an error: the figures that are there may tell why; no second error about them."""
        with contextlib.suppress(BaseException):
            if isinstance(error, Exception):
                figures.show_open(self.shown)
            else:
                figures.close_open()

    async def _whole(self, cell: source.Cell) -> Any:
        """Run both halves of a cell within the loop, as one task."""
        value = None
        for code in (cell.body, cell.last):
            if code is not None:
                value = eval(code, self.namespace)  # noqa: S307 - this is what the sandbox is for
                if _awaits(code):
                    value = await value
        return value if cell.last is not None else None

    def _in_loop(self, cell: source.Cell) -> Any:
        """Run a cell that awaits at its top level, always on the same loop."""
        import asyncio  # noqa: PLC0415 - most cells never need it

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(self._whole(cell))
        try:
            for _ in range(_STOPS):
                # A program may stop the loop; what it stopped is not done.
                with contextlib.suppress(RuntimeError):
                    self._loop.run_until_complete(task)
                if task.done():
                    break
            return task.result()
        except KeyboardInterrupt:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
            raise

    def _register(self, name: str, text: str) -> None:
        """Let tracebacks and inspect.getsource find the lines, now and later."""
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        self._source_size += len(text) - self._sources.pop(name, 0)
        self._sources[name] = len(text)
        while len(self._sources) > 1 and (self._source_size > _MAX_SOURCE or len(self._sources) > _MAX_SOURCES):
            old, size = self._sources.popitem(last=False)
            self._source_size -= size
            linecache.cache.pop(old, None)

    def _fail(self, error: BaseException, name: str, outcome: Outcome) -> None:
        """Tell what ended the cell; an object of the user's may raise whatever it is asked."""
        try:
            if isinstance(error, SystemExit):
                self._on_exit(error, outcome)
            else:
                self._on_error(error, name, outcome)
        except BaseException as failure:  # noqa: BLE001
            why = "its text does not fit into memory" if type(failure) is MemoryError else "it raises another one"
            outcome.texts = {"message": f"the exception cannot be described: {why}"}
            outcome.error = {"ename": "Exception", "line": 0, "hint": ""}

    def _on_exit(self, error: SystemExit, outcome: Outcome) -> None:
        code = error.code
        if code is None or (type(code) in _NUMBERS and code == 0):
            return
        number = int(code) & 0xFF if isinstance(code, int) else 1
        message = f"sys.exit({code})" if isinstance(code, int) else tracebacks.message_of(error)
        outcome.texts.pop("result", None)
        outcome.texts["message"] = message
        outcome.error = {"ename": "SystemExit", "line": 0, "hint": "", "exit_code": number}

    def _on_error(self, error: BaseException, name: str, outcome: Outcome) -> None:
        if isinstance(error, MemoryError):
            self._ceiling.give_room()
        told = tracebacks.describe(error, name)
        outcome.texts.pop("result", None)
        outcome.texts["traceback"] = told.text
        outcome.texts["message"] = told.message
        outcome.error = {"ename": told.name, "line": told.line, "hint": self._hinter.hint(error)}

    def _reply(self, send: Send, nonce: str, most: int, spool: int, outcome: Outcome) -> None:
        parts: list[list[Any]] = []
        body: list[bytes] = []
        cut: list[str] = []
        for name, text in outcome.texts.items():
            data, was_cut = texts.bounded(text, most)
            if was_cut:
                cut.append(name)
                if name == "result":
                    for piece in texts.pieces(text, spool):
                        send({"type": "spool", "nonce": nonce}, piece)
            parts.append([name, len(data)])
            body.append(data)
        header: Header = {
            "type": "reply",
            "nonce": nonce,
            "status": "ok" if outcome.error is None else "error",
            "parts": parts,
            "truncated": cut,
            "dropped": self.shown.dropped,
        }
        if outcome.error is not None:
            header["error"] = outcome.error
        send(header, b"".join(body))
