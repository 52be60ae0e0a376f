"""Runs inside a new environment, as nobody and without a network.

Imports the modules that the environment promises to preload, and makes
matplotlib's font list, so that no sandbox has to. Answers with one JSON object
on standard output; what imported packages print goes to standard error.
"""

import importlib
import importlib.util
import json
import os
import pathlib
import sys

# Names that code written for other machines asks for, and the installed font
# that stands in. Without it figures show empty boxes instead of CJK text.
CJK_FONT = "WenQuanYi Micro Hei"
STAND_INS = (
    "Arial",  # seaborn's first choice
    "Arial Unicode MS",
    "Heiti SC",
    "Heiti TC",
    "Hiragino Sans",
    "IPAexGothic",
    "Malgun Gothic",
    "Meiryo",
    "Microsoft JhengHei",
    "Microsoft YaHei",
    "MS Gothic",
    "NanumGothic",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans CJK SC",
    "Noto Sans CJK TC",
    "Noto Sans SC",
    "PingFang SC",
    "SimHei",
    "SimSun",
    "Source Han Sans CN",
    "Source Han Sans SC",
    "STHeiti",
    "WenQuanYi Zen Hei",
    "Yu Gothic",
)


def fonts():
    """Return matplotlib's font list and settings, or None without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    import matplotlib
    import matplotlib.font_manager  # noqa: F401  # writes the list

    folder = pathlib.Path(matplotlib.get_cachedir())
    (name,) = (path.name for path in folder.glob("fontlist-v*.json"))
    table = json.loads((folder / name).read_text(encoding="utf-8"))
    entries = table["ttflist"]
    known = {entry["name"] for entry in entries}
    families = ["DejaVu Sans"]
    if CJK_FONT in known:
        families.append(CJK_FONT)
        originals = [entry for entry in entries if entry["name"] == CJK_FONT]
        entries.extend(
            {**entry, "name": stand_in}
            for stand_in in STAND_INS
            if stand_in not in known
            for entry in originals
        )
    settings = "# Text falls back glyph by glyph along this list.\nfont.family: " + ", ".join(families) + "\n"
    return {"name": name, "list": json.dumps(table), "settings": settings}


def main():
    """Import, measure, answer."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    failed = {}
    for module in sys.argv[1:]:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001  # any fault of a package is an answer
            failed[module] = f"{type(error).__name__}: {error}"
    with answer:
        json.dump({"failed": failed, "fonts": None if failed else fonts()}, answer)


main()
