"""Figures, images and the other forms that objects offer."""

from __future__ import annotations

import struct
import textwrap
import zlib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from host import Host

PNG = b"\x89PNG\r\n\x1a\n"


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(PNG)
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.fixture
def plots(host: Host) -> Host:
    pytest.importorskip("matplotlib")
    host.run("import matplotlib.pyplot as plt")
    return host


@pytest.mark.parametrize(
    ("code", "images"),
    [
        ("_ = plt.plot([1, 2])", 1),
        ("plt.figure(1); plt.plot([1, 2])\nplt.figure(2); plt.plot([3, 1])\nplt.show()", 2),
        ("plt.plot([1, 2])\nplt.savefig('p.png')\nplt.close('all')", 0),
        ("plt.plot([1, 3])\nplt.show()\nplt.savefig('after.png')", 1),
        ("plt.figure()", 0),
        ("fig, axes = plt.subplots(3, 3)\nfor a in axes.flat: a.plot([1, 2])\nfig.suptitle('grid')\nplt.show()", 1),
        ("plt.ion()\nplt.plot([1, 2])\nplt.pause(0.01)\nplt.ioff()\nprint('went on')", 1),
        ("from matplotlib.figure import Figure\nf = Figure()\n_ = f.subplots().plot([1, 2])\nf", 1),
        ("f, a = plt.subplots()\n_ = a.plot([1])\nf", 1),
        ("f, a = plt.subplots()\n_ = a.plot([1])\nf.show()", 1),
        ("f, a = plt.subplots()\n_ = a.plot([1])\ndisplay(f)", 1),
        ("import matplotlib\nmatplotlib.use('Agg')\n_ = plt.plot([1])", 1),
        ("plt.text(0.5, 0.5, 'x')\nplt.show(block=False)", 1),
        ("plt.plot([1, 2])\n1 / 0", 1),
        ("plt.plot([1, 2])\nraise KeyboardInterrupt", 0),
    ],
)
def test_figures(plots: Host, code: str, images: int) -> None:
    result = plots.run(code)
    assert len(result.images) == images, result.traceback
    assert all(image.startswith(PNG) for image in result.images)
    assert "Warning" not in result.stderr
    following = plots.run("1 + 1")
    assert (following.result, following.images, following.stderr) == ("2", [], "")


def test_figures_of_dataframes(plots: Host) -> None:
    pytest.importorskip("pandas")
    assert len(plots.run("import pandas as pd\n_ = pd.DataFrame({'a': [1, 2]}).plot()").images) == 1


def test_a_figure_too_large_to_draw(plots: Host) -> None:
    result = plots.run("_ = plt.figure(figsize=(90_000, 700)).add_subplot().plot([1, 2])\nplt.show()")
    assert (result.images, result.header["restarted"]) == ([], False)
    assert result.error == "ValueError"
    assert "inches" in result.message
    following = plots.run("1 + 1")
    assert (following.result, following.images, following.stderr) == ("2", [], "")


def test_a_large_figure_is_bounded(plots: Host) -> None:
    code = """
        import numpy as np
        fig = plt.figure(figsize=(60, 60), dpi=100)
        _ = plt.imshow(np.random.default_rng(0).random((1500, 1500)))
        plt.show()
    """
    result = plots.run(textwrap.dedent(code))
    assert len(result.images) == 1
    assert len(result.images[0]) <= 3_000_000
    width, height = size_of(result.images[0])
    assert width * height <= 5_000_000


def test_many_figures_are_bounded_and_counted(plots: Host) -> None:
    result = plots.run("for i in range(24):\n    plt.figure(figsize=(1, 1))\n    plt.plot([i, i + 1])")
    assert len(result.images) == 20
    assert result.header["display_dropped"] == 4
    assert plots.run("1").images == []


def test_an_error_of_drawing_is_told_and_the_others_are_shown(plots: Host) -> None:
    code = "plt.figure(); plt.plot([1, 2]); plt.title(r'$\\frac{$')\nplt.figure(); _ = plt.plot([1, 2])"
    result = plots.run(code)
    assert (result.status, result.error) == ("error", "ValueError")
    assert len(result.images) == 1


def test_images_of_pillow(host: Host) -> None:
    pytest.importorskip("PIL")
    host.run("from PIL import Image")
    assert size_of(host.run("Image.new('RGB', (5, 7))").images[0]) == (5, 7)
    result = host.run("Image.new('CMYK', (5, 5)).show()\nprint('went on')")
    assert (result.stdout, len(result.images)) == ("went on\n", 1)
    assert max(size_of(host.run("Image.new('L', (9000, 10))").images[0])) <= 4096
    noisy = host.run("Image.effect_noise((2500, 2500), 100)").images[0]
    assert len(noisy) <= 2_000_000
    assert min(size_of(noisy)) > 900
    for mode in ("1", "P", "RGBA", "I", "F", "HSV", "I;16"):
        assert len(host.run(f"Image.new({mode!r}, (4, 4))").images) == 1, mode
    assert host.run("Image.new('LAB', (4, 4))").status == "ok"


def picture() -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    body = zlib.compress((b"\0" + b"\xff\0\0" * 2) * 2)
    return repr(
        PNG + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("body", "kinds", "value"),
    [
        (f"def _repr_png_(self): return {picture()}", ["image/png"], "<__main__.X"),
        (f"def _repr_png_(self): return {picture()}, {{'width': 2}}", ["image/png"], "<__main__.X"),
        (f"def _repr_mimebundle_(self, **kw): return {{'image/png': {picture()}}}", ["image/png"], "<__main__.X"),
        ("def _repr_jpeg_(self): return b'\\xff\\xd8\\xff'", ["image/jpeg"], "<__main__.X"),
        ("def _repr_svg_(self): return '<svg/>'\n    def __repr__(self): return 'S-text'", [], "S-text"),
        ("def _repr_svg_(self): return '<svg/>'", ["image/svg+xml"], "<__main__.X"),
        ("def _repr_html_(self): return '<b>x</b>'", ["text/html"], "<__main__.X"),
        (
            "def _repr_markdown_(self): return '**x**'\n    def _repr_html_(self): return 'y'",
            ["text/markdown"],
            "<__main__.X",
        ),
        ("def _repr_png_(self): return None", [], "<__main__.X"),
        ("def __getattr__(self, name): return lambda *a: b'x'", [], "<__main__.X"),
    ],
)
def test_forms_of_objects(host: Host, body: str, kinds: list[str], value: str) -> None:
    result = host.run(f"class X:\n    {body}\nX()")
    assert result.status == "ok", result.traceback
    assert [mime for mime, _ in result.displays] == kinds
    assert (result.result or "").startswith(value)
    assert host.run("X").displays == []


def test_a_form_that_fails_is_told(host: Host) -> None:
    result = host.run("class X:\n    def _repr_png_(self): raise RuntimeError('no picture')\nX()")
    assert (result.error, result.message) == ("RuntimeError", "no picture")


def test_display(host: Host) -> None:
    result = host.run("display('shown text', [1, 2])\ndisplay({'a': 1})")
    assert result.displays == [("text/plain", b"shown text"), ("text/plain", b"[1, 2]"), ("text/plain", b"{'a': 1}")]
    result = host.run("for n in range(500): display(n)")
    assert (len(result.displays), result.header["display_dropped"]) == (20, 480)


def test_large_objects(host: Host) -> None:
    result = host.run("display('x' * 3_000_000)\ndisplay('y' * 9_000_000)\ndisplay('z')")
    assert [len(data) for _, data in result.displays] == [3_000_000, 1]
    assert result.header["display_dropped"] == 1


def test_values_of_libraries(host: Host) -> None:
    pytest.importorskip("numpy")
    value = host.value("import numpy as np\nnp.zeros((2000, 2000))") or ""
    assert "..." in value
    assert len(value) < 4000
    code = "import numpy as np\nfloat(np.ones((300, 300)).dot(np.ones((300, 300))).sum())"
    assert host.value(code) == "27000000.0"


def test_sympy_is_readable(host: Host) -> None:
    pytest.importorskip("sympy")
    result = host.run("import sympy as sp\nx = sp.symbols('x')\nsp.integrate(x**2, x)")
    assert result.result == "x**3/3"


def test_no_browser(host: Host) -> None:
    assert host.value("import webbrowser\nwebbrowser.open('http://example.invalid/')") in ("True", "False")


def test_figures_of_plotly_are_told_in_words(host: Host) -> None:
    host.write("plotly/__init__.py", b"")
    host.write("plotly/io/__init__.py", b"from plotly.io._renderers import show\n")
    host.write("plotly/io/_renderers.py", b"def show(fig, renderer=None, **kwargs):\n    while True: pass\n")
    code = """
        from types import SimpleNamespace as Space
        import plotly.io
        class Figure:
            data = [Space(type='bar'), Space(type='scatter'), Space(type='bar')]
            layout = Space(title=Space(text='Sales'))
            def show(self, *arguments, **options): return plotly.io.show(self, *arguments, **options)
        Figure().show('browser', validate=False)
        plotly.io.show({})
        None
    """
    result = host.run(textwrap.dedent(code), timeout=20)
    assert result.status == "ok", result.traceback
    assert [mime for mime, _ in result.displays] == ["text/plain"] * 2
    text = result.displays[0][1].decode()
    assert text.startswith("A figure of plotly with 3 traces (bar, scatter), titled 'Sales'. No browser")
    assert result.result is None
