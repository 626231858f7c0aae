"""The documentation as tests read it: fenced blocks with the words behind the fence, and the commands in them.

```console         run in the api tier: control planes with nso, the examples applied
```console nodes   run in the e2e tier: two nodes with every program
```console helm    run in the helm tier: the charts
```console local   commands of a checkout; `dry` behind any of them: as a server-side dry run
```yaml cell       accepted by the cell's API server; `yaml ipam` by IPAM's
```text, mermaid   nothing to run
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import Cluster

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
_FENCE = re.compile(r"^(?P<indent> *)```(?P<words>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)

PLACES = frozenset({"", "nodes", "helm", "local"})
"""Where the commands of a console block are run: the word behind `console`."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    words: tuple[str, ...]
    text: str

    @property
    def kind(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def place(self) -> str:
        """The word behind the kind, but for `dry`."""
        rest = [word for word in self.words[1:] if word != "dry"]
        return " ".join(rest)

    @property
    def is_dry(self) -> bool:
        """Whether the commands act on the cluster in a way that only a dry run of them is tested."""
        return "dry" in self.words

    @property
    def commands(self) -> list[str]:
        """The shell commands: lines with `$ `, and those that a backslash joins to them. The rest is output."""
        found: list[str] = []
        goes_on = False
        for line in self.text.splitlines():
            if goes_on:
                found[-1] += "\n" + line
            elif line.startswith("$ "):
                found.append(line[2:])
            goes_on = bool(found) and found[-1].endswith("\\")
        return found

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Every fenced block of the page, without its indentation."""
    text, found = page.read_text(), []
    for match in _FENCE.finditer(text):
        indent = len(match["indent"])
        body = "".join(line[indent:] if line.strip() else line for line in match["text"].splitlines(keepends=True))
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, tuple(match["words"].split()), body))
    return found


def console_blocks(page: Path, place: str) -> list[Block]:
    """The blocks whose commands are run at that place."""
    return [block for block in blocks(page) if block.kind == "console" and block.place == place]


def script(chosen: Iterable[Block]) -> str:
    """A bash script that says where it is and runs every command, in the order of the blocks."""
    lines = [
        "set -euo pipefail",
        "trap 'echo \"failed with $?: $BASH_COMMAND\" >&2' ERR",
        'kubectl() { command kubectl "$@" ${DRY:+--dry-run=server}; }',
        'netclaimctl() { command netclaimctl "$@" ${DRY:+--dry-run}; }',
    ]
    for block in chosen:
        lines.append(f"DRY={'1' if block.is_dry else ''}")
        for command in block.commands:
            lines += [f"echo {shlex.quote(f'{block}: $ {command}')}", command]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Reader:
    """Someone who follows the documentation on a cluster, in an empty folder that has the checkout's files."""

    cluster: Cluster
    folder: Path

    def prepare(self) -> None:
        """Copy what commands name, and put the programs into the PATH as an installation would."""
        (self.folder / ".run").symlink_to(self.cluster.run_dir)
        for name in ("examples", "crds", "charts"):
            shutil.copytree(ROOT / name, self.folder / name)
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "kubectl").symlink_to(self.cluster.kubectl_path)
        # Exit code 1 says that something is found, which a page's reader is about to see; 2 is a command that failed.
        answer = f'PYTHONPATH={ROOT} {sys.executable} -m netclaimctl "$@" || [ $? = 1 ]'
        self._install("netclaimctl", answer)

    def install_helm(self, binary: Path) -> None:
        """Put helm into the PATH; it may take over the definitions that a test session has applied before."""
        kept = f"HELM_CACHE_HOME={self.folder} HELM_CONFIG_HOME={self.folder} HELM_DATA_HOME={self.folder}"
        self._install("helm", f'[ "$1" = upgrade ] && set -- "$@" --take-ownership\n{kept} exec {binary} "$@"')

    def _install(self, name: str, script: str) -> None:
        tool = self.folder / "bin" / name
        tool.write_text(f"#!/bin/bash\n{script}\n")
        tool.chmod(0o755)

    def tidy_charts(self) -> None:
        """Uninstall the charts from both control planes: their admission objects would meet other tests."""
        for kubeconfig in (self.cluster.cell_kubeconfig, self.cluster.ipam_kubeconfig):
            names = "node-agent vpc-controller nso crds --ignore-not-found"
            command = f"bin/helm uninstall {names} -n netclaim-system --kubeconfig {kubeconfig}"
            subprocess.run(shlex.split(command), cwd=self.folder, capture_output=True, check=True, timeout=120)
        self.cluster.kubectl("delete", "secret", "ipam-kubeconfig", "-n", "netclaim-system", "--ignore-not-found")

    def follow(self, chosen: Iterable[Block], *, timeout: float) -> str:
        """Run the blocks' commands; the log. Fails with the log when one does not succeed."""
        cell, ipam = str(self.cluster.cell_kubeconfig), str(self.cluster.ipam_kubeconfig)
        done = subprocess.run(
            ["/bin/bash", "-c", script(chosen)],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "KUBECONFIG": cell,
                "CELL_KUBECONFIG": cell,
                "IPAM_KUBECONFIG": ipam,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"a command of the documentation failed ({done.returncode}):\n{done.stdout}"
        assert "Traceback" not in done.stdout, done.stdout
        return done.stdout
