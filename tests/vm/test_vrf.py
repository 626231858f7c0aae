"""The data path's tests in the VRF backend, inside a virtual machine whose kernel has it (R35, isolation 1 to 7).

They are the tests of tests/net/datapath, unchanged: same properties, same packets, the other backend.
"""

import os
import py_compile
import re
from pathlib import Path

import pytest

from dev import vm
from dev.initramfs import Initramfs
from dev.vm import Kernel
from tests.vm.machine import Machine, running

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("netclaim", "node_agent", "tests/net/datapath")
FILES = ("tests/waiting.py",)
SUITES = ("connectivity", "isolation", "tap", "lifecycle", "upkeep")
CHOSEN = os.environ.get(
    "NETCLAIM_VM_CHOSEN",
    "connectivity or isolation or test_tap or heal_it or repeated",
)
"""pytest's -k: what fits into the tier's minutes. `NETCLAIM_VM_CHOSEN=test` is all of it, a run by hand."""
WITHIN = float(os.environ.get("NETCLAIM_VM_SECONDS", "1500"))
MODULES = (
    "vrf", "veth", "tun", "nf_tables", "nft_objref", "nft_limit",
)  # fmt: skip
OUTCOME = re.compile(r"^(tests/net/datapath/test_(\w+)\.py::\S.*?) (PASSED|FAILED|ERROR|SKIPPED)", re.MULTILINE)
INIT = f"""
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t tmpfs run /run; mount -t tmpfs tmp /tmp
for module in {" ".join(MODULES)}; do modprobe $module || echo "no module $module"; done
mkdir -p /dev/net /dev/shm; [ -c /dev/net/tun ] || mknod /dev/net/tun c 10 200
ip link set lo up
sh /order > /dev/ttyS1 2>&1
echo "ENDED $?" > /dev/ttyS1
sync; poweroff -f
"""
INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
asyncio_default_test_loop_scope = session
"""
ORDER = """cd /netclaim
export HOME=/tmp PYTHONPATH=/netclaim PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
export NETCLAIM_TEST_ROUTING=vrf
exec python -m pytest -c tests.ini --rootdir /netclaim --import-mode=importlib --noconftest --assert=plain \\
  -p pytest_asyncio.plugin -p tests.net.datapath.conftest -p no:cacheprovider -p no:faulthandler \\
  -v --tb=short --color=no --durations=12 -o console_output_style=classic \\
  -k "{chosen}" {files}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Initramfs:
    """The code under test and its tests, compiled here, where that costs nothing."""
    root, scratch = Initramfs(), tmp_path_factory.mktemp("compiled") / "module.pyc"
    found = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    for file in (*found, *(ROOT / name for name in FILES)):
        place = f"/netclaim/{file.relative_to(ROOT)}"
        root.copy(file, place)
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(file), cfile=str(scratch), dfile=place, doraise=True, invalidation_mode=mode)
        cached = Path(place).parent / "__pycache__" / f"{file.stem}.cpython-311.pyc"
        root.file(str(cached), scratch.read_bytes())
    root.file("/netclaim/tests.ini", INI)
    files = " ".join(f"tests/net/datapath/test_{suite}.py" for suite in SUITES)
    root.file("/order", ORDER.format(files=files, chosen=CHOSEN))
    return root


@pytest.fixture(scope="module")
async def outcomes(kernel: Kernel, checkout: Initramfs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Test by test, how it ended in the machine; the whole output of pytest under the empty name."""
    folder = tmp_path_factory.mktemp("vrf")
    base = vm.python_root(kernel, INIT, MODULES, ("ip", "nft"))
    checkout.write(folder / "checkout.cpio")
    root = folder / "root.cpio"
    root.write_bytes(base.read_bytes() + (folder / "checkout.cpio").read_bytes())
    async with running(vm.command(kernel, root, memory=1536), folder, "vrf") as machine:
        return await _finished(machine)


async def _finished(machine: Machine) -> dict[str, str]:
    try:
        await machine.says("ENDED ", timeout=WITHIN)
    finally:
        print(machine.console[-3000:], machine.output, sep="\n")
    found = {name: outcome for name, _, outcome in OUTCOME.findall(machine.output)}
    return {**found, "": machine.output}


@pytest.mark.parametrize("suite", SUITES)
async def test_every_property_of_the_data_path_holds_with_vrf_devices(outcomes: dict[str, str], suite: str) -> None:
    """node-agent.md, Kernel state: both backends behind one planner, the same property tests in both."""
    ours = {name: outcome for name, outcome in outcomes.items() if f"/test_{suite}.py::" in name}
    assert ours, outcomes[""][-3000:]
    bad = {name: outcome for name, outcome in ours.items() if outcome != "PASSED"}
    assert not bad, f"{bad}\n{outcomes[''][-6000:]}"


async def test_the_machine_ran_every_test_to_its_end(outcomes: dict[str, str]) -> None:
    """A run that breaks off counts for nothing."""
    assert outcomes[""].rstrip().endswith("ENDED 0"), outcomes[""][-3000:]
