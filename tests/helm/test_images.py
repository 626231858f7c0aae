"""The images upon a base of another make, named by the argument; takes minutes: NETCLAIM_LONG=1 runs it.

No registry of images is asked here. What stands for `python:3.13-slim` under its name is Debian's next release with apt
and its Python 3.13: as there, libnftables is missing, and another Python than the checkout's has to load everything.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import imagebuild, packages
from dev.containers import client
from dev.enginerun import running_engine
from dev.progress import PlainDisplay

pytestmark = [
    pytest.mark.skipif("NETCLAIM_LONG" not in os.environ, reason="takes minutes; set NETCLAIM_LONG=1 to run it"),
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of its own needs root"),
]
BASE, PYTHON, SUITE, TAG = "python:3.13-slim", "3.13", "trixie", "slim"
LOADED = "import ctypes, sys; ctypes.CDLL('libnftables.so.1'); print(*sys.version_info[:2], sep='.')"


@pytest.fixture
def engine_with_base(tmp_path: Path) -> Iterator[None]:
    """A container engine that has the base, as one that could pull it would."""
    display = PlainDisplay()
    packages.install(["mmdebstrap"], display)
    sources = next(file for file in imagebuild.SOURCES if file.exists()).read_text()
    mirror = re.search(r"^(?:URIs:|deb)\s+(\S+)", sources, re.MULTILINE)
    assert mirror is not None, sources
    system = tmp_path / "base.tar"
    made = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3", SUITE, str(system), mirror[1]]
    subprocess.run(made, check=True, capture_output=True, timeout=400)
    with running_engine(packages.dockerd(display), tmp_path / "engine"):
        repository, _, tag = BASE.partition(":")
        engine = client()
        engine.api.import_image_from_file(str(system), repository=repository, tag=tag)
        engine.close()
        yield


def test_every_image_is_built_upon_a_python_image_that_the_argument_names(engine_with_base: None) -> None:
    """R36: the locked dependencies for that Python, libnftables from its own packages, each program starts."""
    archive = imagebuild.build(PlainDisplay(), tag=TAG, base=BASE, python=PYTHON)
    engine = client()
    with archive.open("rb") as file:
        engine.images.load(file)
    for target in imagebuild.TARGETS:
        image = f"{imagebuild.REPOSITORY}/{target}:{TAG}"
        kept = {"remove": True, "network_mode": "none", "read_only": True}
        said = engine.containers.run(image, ["--help"], **kept).decode()
        assert re.search(r"usage:", said, re.IGNORECASE), f"{target}: {said}"
        version = engine.containers.run(image, ["-c", LOADED], entrypoint="python3", **kept).decode()
        assert version.strip() == PYTHON, target
    engine.close()
