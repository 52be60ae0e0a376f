"""Child processes that start anew find what cells have defined.

``multiprocessing`` with the methods spawn and forkserver runs the main
program's file in each child. Cells have no file; one is written when it is
asked for, with the imports, functions, classes and plain constants of all
cells, and nothing that does work.
"""

from __future__ import annotations

import ast
import os
import tempfile
from typing import TYPE_CHECKING, Any

from biocage_agent import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

_KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_definition(node: ast.stmt) -> bool:
    if isinstance(node, _KEPT):
        return True
    if not isinstance(node, ast.Assign):
        return False
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def definitions(texts: Iterable[str]) -> str:
    """The source of everything that the cells define."""
    parts: list[str] = []
    for text in texts:
        try:
            tree = ast.parse(text)
            parts.extend(ast.unparse(node) for node in tree.body if _is_definition(node))
        except (SyntaxError, ValueError, MemoryError, RecursionError):  # noqa: PERF203
            continue
    return "\n".join(parts) + "\n"


def install(texts: Callable[[], Iterable[str]]) -> None:
    """Write the file for children that are started anew; texts() gives the cells so far."""
    written: dict[str, str] = {}

    def main_file() -> str:
        text = definitions(texts())
        path = written.get(text, "")
        if not path or not os.path.exists(path):
            descriptor, path = tempfile.mkstemp(prefix=".biocage-main-", suffix=".py")
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            written.clear()
            written[text] = path
        return path

    def patch(module: ModuleType) -> None:
        prepare: Callable[[str], dict[str, Any]] = module.get_preparation_data

        def get_preparation_data(name: str) -> dict[str, Any]:
            data = prepare(name)
            if "init_main_from_path" in data and not os.path.exists(data["init_main_from_path"]):
                data["init_main_from_path"] = main_file()
            return data

        module.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]

    hooks.on_import("multiprocessing.spawn", patch)
