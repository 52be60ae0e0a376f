"""One sentence that says what to do next about an exception."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from biocage_agent.zygote import WorkerSetup


class Hinter:
    """Makes hints; knows the namespace and what is installed."""

    def __init__(self, namespace: dict[str, Any], setup: WorkerSetup) -> None:
        """Both are only read."""
        self._namespace = namespace
        self._setup = setup

    def hint(self, error: BaseException, line: int) -> str:
        """A hint, or ""."""
        if isinstance(error, NameError) and error.name:
            close = difflib.get_close_matches(error.name, list(self._namespace), 1)
            if close:
                return f"Did you mean: '{close[0]}'?"
        return f"See line {line}." if line else ""
