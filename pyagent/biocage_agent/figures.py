"""Figures of matplotlib: shown as PNG at plt.show() or at the end of the cell.

Nothing here imports matplotlib; it looks at what a program has imported.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from typing import Any, Protocol

from biocage_agent import hooks

_MAX_PIXELS = 4_000_000
_MAX_BYTES = 2_000_000
_TOO_LARGE = 25_000
_TRIES = 4


class Display(Protocol):
    """Where images go."""

    dropped: int

    @property
    def full(self) -> bool:
        """No more objects are shown."""

    def add(self, mime: str, data: bytes | str) -> bool:
        """Show an object."""


def is_figure(item: object) -> bool:
    """Tell whether item is a figure of matplotlib."""
    figure_class = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    return isinstance(figure_class, type) and isinstance(item, figure_class)


def _pyplot() -> Any:
    return sys.modules.get("matplotlib.pyplot")


def is_empty(figure: Any) -> bool:
    """Tell whether there is nothing to see: savefig after show makes such figures."""
    return not (figure.axes or figure.texts or figure.images or figure.lines or figure.patches or figure.legends)


def _png(figure: Any) -> bytes:
    """The figure as PNG within the bounds on pixels and bytes."""
    width, height = figure.get_size_inches()
    if width > _TOO_LARGE or height > _TOO_LARGE or width * height <= 0:
        raise ValueError(f"a figure of {width:g} x {height:g} inches cannot be drawn")
    dpi = float(figure.dpi)
    dpi = min(dpi, (_MAX_PIXELS / (width * height)) ** 0.5)
    data = b""
    for _ in range(_TRIES):
        buffer = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure.savefig(buffer, format="png", dpi=dpi, bbox_inches="tight" if width * height < 10_000 else None)  # noqa: PLR2004
        data = buffer.getvalue()
        if len(data) <= _MAX_BYTES:
            break
        dpi *= max(0.3, (_MAX_BYTES / len(data)) ** 0.5 * 0.9)
    return data


def show_figure(figure: Any, display: Display) -> None:
    """Show one figure and, when pyplot keeps it, close it."""
    if not display.full:
        display.add("image/png", _png(figure))
    else:
        display.dropped += 1
    pyplot = _pyplot()
    if pyplot is not None:
        pyplot.close(figure)


def show_open(display: Display) -> list[BaseException]:
    """Show every open figure of pyplot and close it; the errors of drawing."""
    pyplot = _pyplot()
    if pyplot is None:
        return []
    errors: list[BaseException] = []
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        try:
            if not is_empty(figure):
                show_figure(figure, display)
        except Exception as error:  # noqa: BLE001 - told to the user, the other figures follow
            errors.append(error)
        finally:
            pyplot.close(figure)
    return errors


def close_open() -> None:
    """Drop the figures of a cell that was interrupted."""
    pyplot = _pyplot()
    if pyplot is not None:
        pyplot.close("all")


def _plotly_text(figure: Any) -> str:
    """What can be told of a figure that only a browser could draw."""
    told = "A figure of plotly"
    with contextlib.suppress(Exception):
        kinds = [str(trace.type) for trace in figure.data]
        told += f" with {len(kinds)} traces ({', '.join(dict.fromkeys(kinds))})"
        if figure.layout.title.text:
            told += f", titled {str(figure.layout.title.text)[:200]!r}"
    return told + (
        ". No browser is here to draw it: keep it with fig.write_html('figure.html'), or draw with matplotlib to see it"
    )


def install(display: Display) -> None:
    """Give pyplot's show() and Figure.show() their meaning here."""

    def patch_pyplot(module: Any) -> None:
        def show(*_arguments: object, **options: object) -> None:
            if options.get("block") is False:
                return
            errors = show_open(display)
            if errors:
                raise errors[0]

        module.show = show

    def patch_figure(module: Any) -> None:
        def show(self: Any, warn: object = True) -> None:  # noqa: ARG001, FBT002 - the library's form
            show_figure(self, display)

        module.Figure.show = show

    def patch_plotly(module: Any) -> None:
        module.show = lambda figure, *_arguments, **_options: display.add("text/plain", _plotly_text(figure))

    hooks.on_import("plotly.io._renderers", patch_plotly)
    hooks.on_import("matplotlib.pyplot", patch_pyplot)
    hooks.on_import("matplotlib.figure", patch_figure)
