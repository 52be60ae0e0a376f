"""Supervisors for the tests: one that is reset before each test, and fresh ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from typing import TYPE_CHECKING

from host import Host
from hypothesis import HealthCheck, settings

settings.register_profile("agent", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agent")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIBRARIES = [
    name
    for name in ("numpy", "pandas", "matplotlib.pyplot", "PIL.Image")
    if importlib.util.find_spec(name.partition(".")[0]) is not None
]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One supervisor with the libraries that are there loaded."""
    host = Host(tmp_path_factory.mktemp("shared"))
    reply = host.start(preload=LIBRARIES)
    assert reply["status"] == "ok"
    assert reply["failed"] == []
    yield host
    assert host.close() == 0


@pytest.fixture
def host(shared: Host) -> Host:
    """The shared supervisor with a new interpreter and an empty workspace."""
    shared.reset()
    return shared


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Make supervisors of one's own; they are ended after the test."""
    made: list[Host] = []

    def make(name: str = "fresh", **options: object) -> Host:
        made.append(Host(tmp_path / name, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for item in made:
        item.close()
