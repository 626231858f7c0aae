"""``netclaimctl``: an operator's questions to the control planes, answered from live objects."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from netclaim.api.resources import IP_ALLOCATIONS, IP_CLAIMS, IP_CLASSES, IP_POOLS
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError
from nso.ipam import invariants

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Look into netclaim's objects and check what must hold."
)
ipam = typer.Typer(no_args_is_help=True, help="The IPAM control plane.")
app.add_typer(ipam, name="ipam")

Kubeconfig = Annotated[str | None, typer.Option(help="kubeconfig of the IPAM control plane; in a cluster: none needed")]
Project = Annotated[str | None, typer.Option(help="one project's namespace; default: all")]


@app.callback()
def main() -> None:
    """Keeps `ipam` a command of its own while it is the only one."""


@ipam.command()
def check(kubeconfig: Kubeconfig = None, project: Project = None) -> None:
    """Recompute every IPAM invariant from the live objects; exit code 1 and one line for each violation."""
    console, problems = Console(stderr=True), Console()
    try:
        counted, violations = asyncio.run(_violations(kubeconfig, project))
    except ApiError as error:
        console.print(f"netclaimctl: the IPAM control plane cannot be read: {error}", highlight=False)
        raise typer.Exit(2) from None
    for violation in violations:
        problems.print(str(violation), highlight=False, soft_wrap=True)
    console.print(f"{counted} objects checked, {len(violations)} violations", highlight=False)
    raise typer.Exit(1 if violations else 0)


async def _violations(kubeconfig: str | None, project: str | None) -> tuple[int, list[invariants.Violation]]:
    client = await Client.connect(kubeconfig, user_agent="netclaimctl")
    try:
        # Allocations are read first: a claim made in between is then simply one without an allocation yet.
        allocations = await client.list(IP_ALLOCATIONS, project)
        claims = await client.list(IP_CLAIMS, project)
        pools = await client.list(IP_POOLS, project)
        classes = await client.list(IP_CLASSES, project)
    finally:
        await client.close()
    found = invariants.check(classes=classes, pools=pools, claims=claims, allocations=allocations)
    return len(allocations) + len(claims) + len(pools) + len(classes), list(found)


def cli() -> None:
    """Entry point of the distribution."""
    app()


if __name__ == "__main__":
    cli()
