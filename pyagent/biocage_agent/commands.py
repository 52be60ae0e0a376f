"""What the notebook spellings in magics.py do when they run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import timeit
from typing import TYPE_CHECKING, Any

from biocage_agent import installing

if TYPE_CHECKING:
    from collections.abc import Callable

_NOTHING = frozenset({"matplotlib", "config", "load_ext", "autoreload", "reload_ext", "pylab", "precision", "%capture"})
_SHELL_NAME = "/bin/sh"

Namespace = dict[str, Any]


def _expand(command: str, namespace: Namespace) -> str:
    """Put in the values of {name} where name is a variable with a plain value, and of {sys.executable}."""
    command = command.replace("{sys.executable}", sys.executable)
    for name, value in namespace.items():
        if type(value) in (str, int, float) and "{" + name + "}" in command:
            command = command.replace("{" + name + "}", str(value))
    return command


def _shell(command: str, namespace: Namespace) -> None:
    """Run a shell command; its output is the cell's."""
    done = subprocess.run(_expand(command, namespace), shell=True, check=False)  # noqa: S602
    installing.after_command()
    if done.returncode:
        sys.stderr.write(f"[the command ended with code {done.returncode}]\n")


def _shell_lines(command: str, namespace: Namespace) -> list[str]:
    done = subprocess.run(  # noqa: S602 - what the user asked for
        _expand(command, namespace), shell=True, check=False, stdout=subprocess.PIPE
    )
    return done.stdout.decode("utf-8", "replace").splitlines()


def _script(body: str) -> None:
    done = subprocess.run([_SHELL_NAME], input=body.encode("utf-8"), check=False)  # noqa: S603
    installing.after_command()
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, _SHELL_NAME)


def _pip(arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *shlex.split(arguments)]
    code = subprocess.run(command, check=False).returncode  # noqa: S603
    installing.after_command()
    if code:
        raise RuntimeError(installing.failure())


def _describe(name: str, namespace: Namespace) -> None:
    """Show an object's documentation, as name? does in notebooks."""
    first, *rest = name.split(".")
    target = namespace.get(first, vars(sys.modules["builtins"]).get(first))
    for part in rest:
        target = getattr(target, part, None)
    if target is None:
        raise NameError(f"name {name!r} is not defined", name=name)
    import inspect  # noqa: PLC0415
    import pydoc  # noqa: PLC0415

    try:
        sys.stdout.write(f"{name}{inspect.signature(target)}\n")
    except (TypeError, ValueError):
        sys.stdout.write(f"{name}: {type(target).__name__}\n")
    sys.stdout.write(f"{pydoc.getdoc(target)}\n")


def _environ(rest: str) -> dict[str, str] | str | None:
    name, found, value = rest.partition("=")
    if found:
        os.environ[name.strip()] = value.strip()
        return None
    return os.environ.get(name.strip()) if name else dict(os.environ)


def _timed(statement: str, namespace: Namespace) -> None:
    timer = timeit.Timer(statement, globals=namespace)
    loops, seconds = timer.autorange()
    sys.stdout.write(f"{seconds / loops * 1e6:.3g} µs per loop ({loops} loops)\n")


def _write_file(name: str, body: str) -> None:
    with open(name.rsplit(maxsplit=1)[-1], "a" if name.startswith("-a") else "w", encoding="utf-8") as file:
        file.write(body if body.endswith("\n") else body + "\n")


def make(namespace: Namespace) -> Callable[..., Any]:
    """The one built-in that translated cells call."""
    table: dict[str, Callable[..., Any]] = {
        "!": lambda text: _shell(text, namespace),
        "!=": lambda text: _shell_lines(text, namespace),
        "?": lambda text: _describe(text, namespace),
        "pip": _pip,
        "cd": lambda text: os.chdir(os.path.expanduser(text.strip() or "~")),
        "pwd": lambda _text: sys.stdout.write(os.getcwd() + "\n"),
        "ls": lambda text: _shell("ls " + text, namespace),
        "env": _environ,
        "set_env": lambda text: _environ(text.replace(" ", "=", 1)),
        "timeit": lambda text: _timed(text, namespace),
        "bash": lambda _text, body: _script(body),
        "sh": lambda _text, body: _script(body),
        "writefile": _write_file,
    }

    def magic(name: str, *texts: str) -> Any:
        if name in _NOTHING:
            return None
        action = table.get(name)
        if action is None:
            sign = "" if name.startswith("%") else "%"
            raise NameError(f"{sign}{name} is a notebook command that does not exist here; write plain Python")
        return action(*texts)

    return magic
