"""Play the scenarios with the SDK of this environment and print facts as JSON.

usage: run.py SDK SCENARIO[,SCENARIO...] NAME=VALUE... -- COMMAND [ARGUMENT...]
       run.py SDK SCENARIO[,SCENARIO...] TOKEN=VALUE -- URL

SDK is 1, 2 or fast; NAME=VALUE is the server's environment. The output is one
JSON object on standard output, a key for each scenario; a scenario that failed
on the client's side is {"failed": TRACEBACK}.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict, is_dataclass
from importlib import import_module
from typing import Any

import anyio

from peer import Server
from scenarios import SCENARIOS, kept_by

PATIENCE = 120  # seconds for one scenario
AT_ONCE = 3  # most of a scenario is waiting


def parse(words: list[str]) -> tuple[str, list[str], Server]:
    """Read the command line."""
    split = words.index("--")
    sdk, names, *env = words[:split]
    command, *args = words[split + 1 :]
    pairs = dict(pair.split("=", 1) for pair in env)
    if command.startswith("http"):
        return sdk, names.split(","), Server(url=command, token=pairs["TOKEN"])
    return sdk, names.split(","), Server(command, args, pairs)


async def play(sdk: str, names: list[str], server: Server) -> dict[str, Any]:
    """Each scenario has a server of its own."""
    connect = import_module(f"peer{sdk}").connect
    facts: dict[str, Any] = {}
    turns = anyio.CapacityLimiter(AT_ONCE)

    async def scenario(name: str) -> None:
        try:
            async with turns:
                with anyio.fail_after(PATIENCE):
                    async with connect(server) as peer:
                        facts[name] = await SCENARIOS[name](peer)
                if name == "kept":
                    async with connect(server) as peer:
                        facts[name] |= await kept_by(peer, facts[name]["session"])
        except Exception:  # noqa: BLE001 - whatever it is, the tests tell it
            facts[name] = {"failed": traceback.format_exc()}

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(scenario, name)
    return facts


def plain(value: object) -> Any:  # noqa: ANN401 - JSON is anything
    """Make JSON of what json does not know."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    message = f"no JSON for {type(value)}"
    raise TypeError(message)


def main() -> None:
    """Run."""
    json.dump(anyio.run(play, *parse(sys.argv[1:])), sys.stdout, default=plain)


if __name__ == "__main__":
    main()
