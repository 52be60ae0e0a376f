"""The module ``__main__`` that user code lives in."""

from __future__ import annotations

import builtins
import os
import sys
from types import ModuleType


def make_main(workspace: str) -> ModuleType:
    """A fresh ``__main__``, in place of the module that the launcher ran as.

    It has a ``__file__`` in the workspace, so that scripts that look for files
    beside themselves find the workspace.
    """
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    module.__file__ = os.path.join(workspace, "main.py")
    sys.modules["__main__"] = module
    return module
