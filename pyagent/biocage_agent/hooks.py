"""Small corrections to libraries, made when (and only when) a program imports them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Patch = Callable[[ModuleType], None]
_patches: dict[str, Patch] = {}


class _Loader(importlib.abc.Loader):
    """Loads as the real loader does, then applies the patch."""

    def __init__(self, real: importlib.abc.Loader, patch: Patch) -> None:
        self._real = real
        self._patch = patch

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        module.__loader__ = self._real
        self._real.exec_module(module)
        _apply(self._patch, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Stands before the real finders for the few names that are patched."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        patch = _patches.get(fullname)
        if patch is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, patch)
                return spec
        return None


def _apply(patch: Patch, module: ModuleType) -> None:
    """A library of another version than expected is left as it is."""
    try:
        patch(module)
    except Exception:  # noqa: BLE001 - a correction must never break an import
        return


def on_import(name: str, patch: Patch) -> None:
    """Apply the patch once the module is imported, or now if it is."""
    _patches[name] = patch
    module = sys.modules.get(name)
    if module is not None:
        _apply(patch, module)


def _patch_getpass(module: ModuleType) -> None:
    def getpass(prompt: str = "Password: ", stream: object = None) -> str:  # noqa: ARG001 - the library's form
        raise EOFError("getpass() cannot work here: nobody can type a password; put the value into the code")

    module.getpass = getpass  # type: ignore[attr-defined]


def _patch_processes(module: ModuleType) -> None:
    """Where a newer Python's default is another, children are still made by fork."""
    fork = module._concrete_contexts["fork"]  # noqa: SLF001
    module._default_context._default_context = fork  # noqa: SLF001


def install() -> None:
    """Put the finder first."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.meta_path.insert(0, _Finder())
    on_import("getpass", _patch_getpass)
    on_import("multiprocessing.context", _patch_processes)
