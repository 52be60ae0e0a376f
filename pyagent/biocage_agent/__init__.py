"""The end of the agent protocol that lives inside a sandbox.

One process, the supervisor, owns the protocol's descriptors and never runs
user code. Workers, forked from a zygote that has the libraries loaded, run the
cells. See PROTOCOL.md for what the supervisor and the host say to each other.
"""

from __future__ import annotations

__all__ = ["PROTOCOL", "__version__"]

__version__ = "1.0.0"
PROTOCOL = 1
