"""`python -m dev`: the local cluster on the command line."""

from __future__ import annotations

import enum
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dev.cluster import Cluster, down
from dev.errors import ClusterError
from dev.paths import RunDir, default_run_dir
from dev.progress import display

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)


class Install(enum.StrEnum):
    """How the programs get onto the cluster."""

    PROCESSES = "processes"
    HELM = "helm"


class ControlPlane(enum.StrEnum):
    """How the processes of the control planes run."""

    PROCESS = "process"
    CONTAINER = "container"


programs_app = typer.Typer(no_args_is_help=True, help="The product's programs on the running cluster.")
app.add_typer(programs_app, name="programs")

RunDirOption = Annotated[
    Path | None,
    typer.Option("--run-dir", help="The cluster's folder. Default: $NETCLAIM_RUN_DIR, else .run in the checkout."),
]


@app.command("up")
def up_command(
    nodes: Annotated[
        int, typer.Option(min=0, max=2, help="Nodes; 0 starts the control planes only and needs no root.")
    ] = 2,
    control_plane: Annotated[ControlPlane, typer.Option(help="How the control planes run.")] = ControlPlane.PROCESS,
    run_dir: RunDirOption = None,
) -> None:
    """Start the cluster, building what is missing, and return when it is ready."""
    began = time.monotonic()
    with display() as shown:
        cluster = Cluster.up(run_dir, nodes=nodes, control_plane=control_plane.value, detach=True, display=shown)
        shown.say(f"ready in {time.monotonic() - began:.1f} s. Paths for your shell: source {cluster.run.env}")


@app.command("status")
def status_command(run_dir: RunDirOption = None) -> None:
    """Show what runs and where its files are; exit code 1 when no cluster runs."""
    cluster = Cluster.load(run_dir)
    table = Table("process", "pid", "state", "MiB", "log", box=None, pad_edge=False)
    for process in cluster.processes():
        log = Path(process["log"]).relative_to(cluster.run_dir)
        table.add_row(process["name"], str(process["pid"] or "-"), process["state"], str(process["mib"]), str(log))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    for name, value in cluster.env.items():
        console.print(f"{name}={value}", highlight=False)


@app.command("down")
def down_command(run_dir: RunDirOption = None) -> None:
    """End the cluster; nothing of it stays but its logs."""
    run = RunDir((run_dir or default_run_dir()).resolve())
    typer.echo(f"ended; the logs are in {run.log}" if down(run) else f"nothing runs in {run.root}")


@app.command("demo")
def demo_command(
    run_dir: RunDirOption = None,
    install: Annotated[
        Install, typer.Option(help="The programs as processes of this checkout, or installed with helm from images.")
    ] = Install.PROCESSES,
) -> None:
    """Show the whole chain, from a Workload to a ping, on a fresh two-node cluster."""
    from dev.demo import demo

    demo((run_dir or default_run_dir()).resolve(), with_helm=install is Install.HELM)


@app.command("images")
def images_command(
    tag: Annotated[str, typer.Option(help="Tag of the images.")] = "0.1.0",
    base: Annotated[
        str,
        typer.Option(
            help="Base image that the container engine has or can pull; default: one made of Debian's packages."
        ),
    ] = "",
    python: Annotated[str, typer.Option(help="Version of the base's Python.")] = "3.11",
) -> None:
    """Build the product's images; prints the archive, for `docker load` or `ctr images import`."""
    from dev import imagebuild

    with display() as shown:
        archive = imagebuild.build(shown, tag=tag, base=base, python=python)
    typer.echo(archive)


@programs_app.command("install")
def programs_install_command(run_dir: RunDirOption = None) -> None:
    """Build the images and install every chart on the running cluster with helm."""
    from dev import helm

    with display() as shown:
        helm.install(Cluster.load(run_dir), shown, shown.say)


@programs_app.command("up")
def programs_up_command(run_dir: RunDirOption = None) -> None:
    """Install the API types and start every program of the product on the running cluster."""
    from dev import programs

    programs.start(Cluster.load(run_dir), say=typer.echo)


def main() -> None:
    """Run the command line; what goes wrong with the cluster is a message and exit code 1 (Ctrl-C: 130)."""
    try:
        app()
    except ClusterError as error:
        print(f"dev: error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
