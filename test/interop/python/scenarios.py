"""What is tried with each SDK. A scenario gives facts; the Go tests judge them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from peer import Answer, Peer

    Facts = dict[str, Any]
    Scenario = Callable[[Peer], Awaitable[Facts]]


async def run(peer: Peer, code: str, **more: object) -> Answer:
    """Run code to its end, as a model does: what outlasts the answer is waited for, and a slow start too."""
    answer = await peer.call("python_run", {"code": code, **more})
    for _ in range(10):
        if "still being started" not in str((answer.result or {}).get("error")):
            break
        answer = await peer.call("python_run", {"code": code, **more})
    return await rest_of(peer, answer)


async def rest_of(peer: Peer, answer: Answer) -> Answer:
    """Wait until the run has ended."""
    while answer.result is not None and answer.result.get("status") == "running":
        answer = await peer.call("python_wait", {"run_id": answer.result["run_id"]})
    return answer


async def tools(peer: Peer) -> Facts:
    """List the tools, twice: the order must not vary."""
    return {"protocol": peer.protocol, "first": await peer.tools(), "second": await peer.tools()}


async def state(peer: Peer) -> Facts:
    """Keep a variable over 100 calls."""
    first = await run(peer, "kept = []")
    begin = time.monotonic()
    for number in range(100):
        await run(peer, f"kept.append({number})")
    seconds = time.monotonic() - begin
    return {"first": first, "last": await run(peer, "(len(kept), sum(kept))"), "seconds": seconds}


async def figure(peer: Peer) -> Facts:
    """Show a figure and make a file."""
    code = (
        "import matplotlib.pyplot as plt\n"
        "plt.plot([1, 2, 3], [2, 4, 8])\n"
        "plt.show()\n"
        "open('note.txt', 'w').write('a note\\n')"
    )
    answer = await run(peer, code)
    return {"answer": answer, "linked": [await peer.read(uri) for uri in answer.links]}


async def cancel(peer: Peer) -> Facts:
    """Cancel in the middle of a cell."""
    await run(peer, "import time\nkept = 41")
    await peer.call_and_cancel("python_run", {"code": "kept += 1\ntime.sleep(60)\nkept = 'ended'"}, 1.5)
    begin = time.monotonic()
    after = await until_free(peer, "kept", 20)
    return {"after": after, "seconds": time.monotonic() - begin}


async def until_free(peer: Peer, code: str, patience: float) -> Answer:
    """Run code as soon as the session is free."""
    end = time.monotonic() + patience
    while True:
        answer = await run(peer, code)
        if not is_busy(answer) or time.monotonic() > end:
            return answer
        await anyio.sleep(0.1)


def is_busy(answer: Answer) -> bool:
    """Tell whether the call was refused because another cell runs."""
    error = (answer.result or {}).get("error") or {}
    return error.get("kind") == "busy"


async def timeout(peer: Peer) -> Facts:
    """Meet the time limit in the middle of a cell."""
    await run(peer, "kept = 41")
    stopped = await run(peer, "kept += 1\nwhile True: pass", timeout_seconds=1)
    return {"stopped": stopped, "after": await run(peer, "kept")}


async def killed(peer: Peer) -> Facts:
    """Kill the interpreter from inside."""
    await run(peer, "lost = 1")
    dead = await run(peer, "import os\nos.kill(os.getpid(), 9)")
    return {"dead": dead, "after": await run(peer, "'lost' in globals()"), "usable": await run(peer, "6 * 7")}


async def progress(peer: Peer) -> Facts:
    """Watch a cell of 3 seconds, and a second afterwards."""
    await run(peer, "import time")
    code = "for i in range(30):\n    print('step', i)\n    time.sleep(0.1)"
    before = len(peer.notices.times)  # there are clients that always ask
    begin = time.monotonic()
    answer = await peer.call("python_run", {"code": code}, progress=True)
    end = time.monotonic()
    await anyio.sleep(1)
    times = peer.notices.times[before:]
    return {
        "answer": answer,
        "during": sum(1 for at in times if begin <= at <= end),
        # The SDK may hand on what came before the answer a moment after it.
        "late": sum(1 for at in times if at > end + 0.1),
        "values": peer.notices.values[before:],
    }


async def large(peer: Peer) -> Facts:
    """Print 5 MB, give a value of 5 MB, show an image of megabytes."""
    printed = await run(peer, "for i in range(100_000): print(f'{i:049d}')")
    value = await run(peer, "'y' * 5_000_000")
    noise = (
        "import numpy as np\nfrom PIL import Image\n"
        "Image.fromarray(np.random.default_rng(1).integers(0, 255, (1400, 1400, 3), dtype=np.uint8))"
    )
    return {"printed": printed, "value": value, "image": await run(peer, noise), "after": await run(peer, "1 + 1")}


async def parallel(peer: Peer) -> Facts:
    """Call eight times at once, and list files beside."""
    await run(peer, "import time\nseen = []")
    answers: list[Answer] = []
    lists: list[Answer] = []

    async def cell(number: int) -> None:
        answers.append(await run(peer, f"seen.append({number})\ntime.sleep(0.2)\n{number}"))

    async def files() -> None:
        lists.append(await peer.call("file_list", {}))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(cell, number)
            tasks.start_soon(files)
    after = await until_free(peer, "sorted(seen)", 20)
    ran = sorted(int(a.result["result"]) for a in answers if a.result and a.result["success"])
    return {"answers": answers, "lists": lists, "ran": ran, "after": after}


async def long(peer: Peer) -> Facts:
    """Outlast the answer; the rest is fetched, and another run is interrupted."""
    await run(peer, "import time\nkept = 0")
    first = await peer.call("python_run", {"code": "print('begun')\ntime.sleep(24)\nkept = 'whole'\nkept"})
    busy = await peer.call("python_run", {"code": "1"})
    rest = await rest_of(peer, first)
    await peer.call("python_run", {"code": "time.sleep(25)\nkept = 'never'"})
    stopped = await peer.call("python_wait", {"interrupt": True})
    return {"first": first, "busy": busy, "rest": rest, "stopped": stopped, "after": await run(peer, "kept")}


async def every(peer: Peer) -> Facts:
    """Play what every client does over every transport, in one session."""
    return {name: await SCENARIOS[name](peer) for name in EVERY}


async def kept(peer: Peer) -> Facts:
    """Leave a variable for the next connection, see kept_by."""
    await run(peer, "kept = 42")
    return {"session": peer.session}


async def kept_by(peer: Peer, session: str) -> Facts:
    """Come back, and go on in the same session by its handle."""
    peer.session = session
    return {"after": await run(peer, "kept")}


async def meta(peer: Peer) -> Facts:
    """Call every tool; each answer must carry its result object."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("python_run", {"code": "1 + 1"}),
        ("python_wait", {}),
        ("file_write", {"path": "a.txt", "content": "hello"}),
        ("file_read", {"path": "a.txt"}),
        ("file_list", {}),
        ("file_expose", {"host_path": "/etc/passwd"}),
        ("session_info", {}),
        ("session_reset", {}),
    ]
    return {name: await peer.call(name, arguments) for name, arguments in calls}


EVERY = ("tools", "state", "progress", "cancel", "large", "parallel")

SCENARIOS: dict[str, Scenario] = {
    "tools": tools,
    "state": state,
    "figure": figure,
    "cancel": cancel,
    "timeout": timeout,
    "killed": killed,
    "progress": progress,
    "large": large,
    "parallel": parallel,
    "long": long,
    "meta": meta,
    "every": every,
    "kept": kept,
}
