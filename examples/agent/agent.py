"""A code agent that cannot harm the machine it runs on.

    python3 examples/agent/agent.py [--biocage bin/biocage] [--engine auto|docker|gvisor]

The loop of every code agent: a model writes code, the code runs, the model
reads what came of it and writes better code. Here the model is a stand-in with
a script, so that the example needs no key and always does the same; it makes
the mistakes that models make, and mends each by what the answer tells it. What
it writes runs in a sandbox of the BioCage server, below the limits set here.

The exit code is 0 when the task was done and every mistake was mended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys

LIMITS = {  # what the whole agent may use; the same keys as in the configuration
    "BIOCAGE_SANDBOX_MEMORY": "512m",
    "BIOCAGE_SANDBOX_CPUS": "1",
    "BIOCAGE_SANDBOX_PIDS": "64",
    "BIOCAGE_SANDBOX_DISK": "64m",
    "BIOCAGE_SANDBOX_NETWORK": "none",
    "BIOCAGE_RUN_TIMEOUT": "20s",
    "BIOCAGE_RUN_MAX_TIMEOUT": "30s",
    "BIOCAGE_RUN_MAX_OUTPUT": "8KiB",
}
ATTEMPTS = 3  # for one step
CALLS = 20  # for the whole task

SALES = "region,amount\nnorth,120\nsouth,80\nnorth,40\nwest,60\nsouth,20\n"
WANTED = {"north": 160, "south": 100, "west": 60}


class Server:
    """`biocage serve`, as an MCP host starts it: JSON lines over its standard streams."""

    def __init__(self, biocage: str, engine: str) -> None:
        self._process = subprocess.Popen(
            [biocage, "serve", "--engine", engine, "--log-level", "warn"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **LIMITS},
            encoding="utf-8",
        )
        self._next = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
        self._request("initialize", hello)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, message: dict) -> None:
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _request(self, method: str, params: dict) -> dict:
        self._next += 1
        self._write({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]
        raise RuntimeError("the server has ended")

    def call(self, tool: str, **arguments: object) -> tuple[str, dict]:
        """The answer's text, as a model reads it, and its result object."""
        answer = self._request("tools/call", {"name": tool, "arguments": arguments})
        return answer["content"][0]["text"], answer["_meta"]["biocage/result"]

    def close(self) -> int:
        self._process.stdin.close()
        return self._process.wait(10)


# The script: for each step what the model writes first, and what it falls back
# to when the answer names no better spelling.
STEPS = [
    ("a misspelt file", "import pandas as pd\nsales = pd.read_csv('sale.csv')\nlen(sales)", ""),
    ("a misspelt column", "totals = sales['amuont'].groupby(sales['region']).sum()", ""),
    ("code that never ends", "n = 0\nwhile n >= 0:\n    n += 1", "n = len(sales)\nn"),
    ("more memory than there is", "table = bytearray(4 << 30)", "table = bytearray(1 << 20)\nlen(table)"),
    (
        "a download without a network",
        "import urllib.request\nrates = urllib.request.urlopen('http://example.org/rates').read()",
        "rates = {'north': 1, 'south': 1, 'west': 1}\nlen(rates)",
    ),
    ("the answer", "print(totals.mul(pd.Series(rates)).astype(int).to_json())", ""),
]


class Model:
    """The stand-in: reads an answer as a model does and writes the next code."""

    def __init__(self, code: str, fallback: str) -> None:
        self.code = code
        self._fallback = fallback

    def mend(self, error: dict) -> str:
        """Why the code is another one now, or "" when there is no idea left."""
        hint = error.get("hint", "")
        told = re.search(r"[Dd]id you mean:? '([^']+)'", hint)
        wrong = re.search(r"'([^']+)'", error["message"])
        if told and wrong and wrong.group(1) in self.code:
            self.code = self.code.replace(wrong.group(1), told.group(1))
            return hint
        if self._fallback and self.code != self._fallback:
            self.code = self._fallback
            return hint or error["message"]
        return ""


def work(server: Server) -> tuple[dict, list[str]]:
    """Do all steps; the last answer and what went wrong and was mended."""
    mended, calls, result = [], 0, {}
    for name, code, fallback in STEPS:
        model = Model(code, fallback)
        for _ in range(ATTEMPTS):
            calls += 1
            if calls > CALLS:
                raise RuntimeError(f"no end after {CALLS} calls")
            print(f"\n--- {name}\n{model.code}")
            timeout = {"timeout_seconds": 2} if "while" in model.code else {}
            text, result = server.call("python_run", code=model.code, **timeout)
            print("=>", text.strip()[:600].replace("\n", "\n   "))
            if result["success"]:
                break
            if result["restarted"]:
                raise RuntimeError(f"the state was lost: {result['restart_reason']}")
            why = model.mend(result["error"])
            if not why:
                raise RuntimeError(f"the model cannot mend {name}: {result['error']['message']}")
            mended.append(name)
        else:
            raise RuntimeError(f"{name}: no success in {ATTEMPTS} attempts")
    return result, mended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--biocage", default="bin/biocage")
    parser.add_argument("--engine", default="auto")
    options = parser.parse_args()
    server = Server(options.biocage, options.engine)
    try:
        server.call("file_write", path="sales.csv", content=SALES)
        result, mended = work(server)
        totals = json.loads(result["stdout"])
    finally:
        code = server.close()
    print(f"\nanswer: {totals}\nmended: {', '.join(mended)}")
    wanted = [name for name, _, _ in STEPS[:-1]]
    return 0 if (totals, mended, code) == (WANTED, wanted, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
