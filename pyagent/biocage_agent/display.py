"""What a cell shows besides text: images and the other forms that objects offer."""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from biocage_agent import figures, hooks

Show = Callable[[str, bytes], None]

_MAX_OBJECTS = 20
_MAX_BYTES = 8 << 20
_MAX_SIDE = 4096
_MAX_IMAGE = 2_000_000  # as for figures: a noisy picture is scaled down rather than left out
_TRIES = 4
_IMAGES = (("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"))
_TEXTS = (
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"),
    ("text/html", "_repr_html_"),
)


def _no_input(prompt: object = "") -> NoReturn:  # noqa: ARG001 - the built-in's form
    raise EOFError("input() cannot work here: nobody can type an answer; put the value into the code")


class Shown:
    """The objects that the running cell has shown."""

    def __init__(self) -> None:
        """No cell runs yet."""
        self._send: Show | None = None
        self._count = 0
        self.dropped = 0

    def begin(self, send: Show) -> None:
        """A cell begins; send(mime, data) shows an object."""
        self._send = send
        self._count = 0
        self.dropped = 0

    @property
    def full(self) -> bool:
        """Tell whether one more object would be left out."""
        return self._count >= _MAX_OBJECTS

    def add(self, mime: str, data: bytes | str) -> bool:
        """Show data; tells whether it was within the bounds."""
        raw = b""
        fits = self._send is not None and not self.full and len(data) <= _MAX_BYTES
        if fits:
            raw = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
        if self._send is None or not fits or len(raw) > _MAX_BYTES:
            self.dropped += 1
            return False
        self._count += 1
        self._send(mime, raw)
        return True

    def display(self, *objects: object, **_options: object) -> None:
        """Show each object: as an image where there is one, else as text."""
        for item in objects:
            if not self.rich(item):
                self.add("text/plain", item if isinstance(item, str) else repr(item))

    def rich(self, item: Any) -> bool:  # noqa: PLR0911
        """Show the forms that say more than the text of item; tells whether there were any."""
        if isinstance(item, type):
            return False
        if figures.is_figure(item):
            if not figures.is_empty(item):
                figures.show_figure(item, self)
            return True
        png = _pillow_png(item)
        if png is not None:
            return self.add("image/png", png)
        bundle = _bundle(item)
        for mime, method in _IMAGES:
            data = bundle.get(mime) or _form(item, method)
            if isinstance(data, (bytes, bytearray)) and data:
                return self.add(mime, bytes(data))
        if getattr(type(item), "__repr__", None) is not object.__repr__:
            return False
        for mime, method in _TEXTS:
            data = bundle.get(mime) or _form(item, method)
            if isinstance(data, str) and data:
                return self.add(mime, data)
        return False


def _form(item: Any, method: str) -> Any:
    """One of the forms that notebooks ask objects for, without its metadata."""
    if not callable(getattr(type(item), method, None)):
        return None
    data = getattr(item, method)()
    return data[0] if isinstance(data, tuple) and data else data


def _bundle(item: Any) -> dict[str, Any]:
    if not callable(getattr(type(item), "_repr_mimebundle_", None)):
        return {}
    data = item._repr_mimebundle_(include=None, exclude=None)
    if isinstance(data, tuple) and data:
        data = data[0]
    return data if isinstance(data, dict) else {}


def _pillow_png(item: Any) -> bytes | None:
    """A Pillow image as PNG, scaled down when it is huge; None when it has no such form."""
    module = sys.modules.get("PIL.Image")
    image_class = getattr(module, "Image", None)
    if not isinstance(image_class, type) or not isinstance(item, image_class):
        return None
    image: Any = item
    if max(image.size) > _MAX_SIDE:
        image = image.copy()
        image.thumbnail((_MAX_SIDE, _MAX_SIDE))
    data = b""
    try:
        if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
            image = image.convert("L" if image.mode[0] in "IF" else "RGB")
        for _ in range(_TRIES):
            buffer = io.BytesIO()
            image.save(buffer, format="PNG")
            data = buffer.getvalue()
            if len(data) <= _MAX_IMAGE:
                break
            scale = max(0.3, (_MAX_IMAGE / len(data)) ** 0.5 * 0.9)
            image = image.resize([max(1, int(side * scale)) for side in image.size])
    except (OSError, ValueError):
        return None
    return data


SHOWN = Shown()


def _patch_pillow(module: Any) -> None:
    def show(self: Any, title: object = None) -> None:  # noqa: ARG001 - the library's form
        SHOWN.rich(self)

    module.Image.show = show


def install() -> None:
    """Make display() and input() what they have to be here."""
    builtins.input = _no_input
    hooks.on_import("PIL.Image", _patch_pillow)
    figures.install(SHOWN)
