"""The end of the agent protocol that lives inside a sandbox.

One process, the supervisor, owns the protocol's descriptors and never runs
user code. Workers, forked from a zygote that has the libraries loaded, run the
cells. See PROTOCOL.md for what the supervisor and the host say to each other.

The package's modules have built-ins of their own: user code that replaces
``builtins.len`` spoils its own calls and not the worker's.
"""

from __future__ import annotations

import builtins
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["PROTOCOL", "__version__"]

__version__ = "1.0.0"
PROTOCOL = 1

_BUILTINS = dict(vars(builtins))


class _Loader(SourceFileLoader):
    """Loads a module of this package with the built-ins as they are now."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = _BUILTINS
        super().exec_module(module)


class _Finder:
    """Finds the modules of this package and no others."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(__name__ + "."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


sys.meta_path.insert(0, _Finder)
