"""Packages that a program installs for itself, where the sandbox has a network.

The environment is read-only, so pip gets a prefix of its own below the
temporary folder: it goes with the session, and it stands last in the search
path, so nothing in it takes the place of what the environment has.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import sysconfig
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from biocage_agent.zygote import WorkerSetup

_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
_OFFLINE = {**_QUIET, "PIP_RETRIES": "1", "PIP_DEFAULT_TIMEOUT": "5"}
_NO_NETWORK = (
    "pip failed: the sandbox has no network, and packages belong into the environment "
    "(biocage env build); import what is installed instead"
)


def prepare(setup: WorkerSetup) -> None:
    """In a new worker: let pip, started in whatever way, work and its packages be found."""
    if not setup.network:
        os.environ.update(_OFFLINE)
        return
    prefix = os.path.join(setup.temp, ".packages")
    base = {"base": prefix, "platbase": prefix}
    place = sysconfig.get_path("purelib", sysconfig.get_preferred_scheme("prefix"), base)
    with contextlib.suppress(OSError):  # a full disk: pip will say so
        os.makedirs(place, exist_ok=True)
    sys.path.append(place)
    os.environ.update(_QUIET, PIP_PREFIX=prefix, PIP_NO_CACHE_DIR="1", PYTHONPATH=place)
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + os.pathsep + os.path.join(prefix, "bin")


def after_command() -> None:
    """A command may have installed something: look at the disk again."""
    importlib.invalidate_caches()


def failure() -> str:
    """What to tell when pip failed."""
    if "PIP_PREFIX" not in os.environ:
        return _NO_NETWORK
    return (
        "pip failed, for the reason above. It installs for this session only and cannot replace a package "
        "of the environment (biocage env build can)"
    )
