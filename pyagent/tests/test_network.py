"""What differs where the sandbox has a network: hints, and where pip installs."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from host import Host

UNREACHABLE = "import errno\nraise OSError(errno.ENETUNREACH, 'Network is unreachable')"


def make_wheel(folder: Path, name: str = "biocage_trial", version: str = "1.0") -> Path:
    """A package of one module with one command, as an index would give it."""
    info = f"{name}-{version}.dist-info"
    content = {
        f"{name}.py": f"VERSION = {version!r}\n\n\ndef main():\n    print('command of', VERSION)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-say = {name}:main\n",
    }
    record = ""
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    content[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return wheel


def test_hints_follow_the_network(fresh: Callable[..., Host]) -> None:
    off, on = fresh("off"), fresh("on")
    off.start(network=False)
    on.start(network=True)
    assert "no network" in off.run(UNREACHABLE).hint
    hint = on.run(UNREACHABLE).hint
    assert "no network" not in hint
    assert "check its name and port" in hint
    assert "no network" in off.run("import no_such_pkg_abc").hint
    hint = on.run("import cv2").hint
    assert "no network" not in hint
    assert "`%pip install opencv-python`" in hint


def test_pip_installs_for_the_session(fresh: Callable[..., Host], tmp_path: Path) -> None:
    host = fresh()
    host.start(network=True)
    make_wheel(tmp_path / "index")
    assert host.run("import biocage_trial").error == "ModuleNotFoundError"
    done = host.run(f"%pip install --no-index --find-links {tmp_path / 'index'} biocage_trial")
    assert done.status == "ok", done.stdout + done.stderr
    assert "Successfully installed" in done.stdout
    assert host.value("import biocage_trial; biocage_trial.VERSION") == "'1.0'"
    assert str(host.temp) in str(host.value("biocage_trial.__file__"))
    assert "command of 1.0" in host.run("!biocage_trial-say").stdout
    child = "import biocage_trial; print(biocage_trial.VERSION)"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    assert host.run(code).stdout == "1.0\n"
    host.reset()
    assert host.run("import biocage_trial").error == "ModuleNotFoundError"


def test_other_ways_to_call_pip(fresh: Callable[..., Host], tmp_path: Path) -> None:
    host = fresh()
    host.start(network=True)
    index = tmp_path / "index"
    make_wheel(index)
    make_wheel(index, "biocage_second")
    arguments = f"install --no-index --find-links {index}"
    assert "Successfully" in host.run(f"import sys\n!{{sys.executable}} -m pip {arguments} biocage_trial").stdout
    command = ["-m", "pip", *arguments.split(), "biocage_second"]
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, *{command!r}], check=True)"
    assert host.run(code).status == "ok"
    assert host.value("import biocage_trial, biocage_second; biocage_second.VERSION") == "'1.0'"


def test_pip_that_fails_says_why(fresh: Callable[..., Host], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    command = f"%pip install --no-index --find-links {tmp_path / 'empty'} biocage_trial"
    off, on = fresh("off"), fresh("on")
    off.start(network=False)
    on.start(network=True)
    assert "no network" in off.run(command).message
    told = on.run(command)
    assert "No matching distribution" in told.stderr
    assert "no network" not in told.message
    assert "for this session only" in told.message
