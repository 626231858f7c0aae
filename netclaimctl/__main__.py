"""``netclaimctl``: an operator's questions to the control planes, answered from live objects."""

from typing import Annotated, Final

import typer

from netclaim.api.networking import PROJECT_LABEL
from netclaimctl import ipam, node, reading
from netclaimctl.chain import Link, State, first_unsound
from netclaimctl.explain import explain
from netclaimctl.gathering import gather
from netclaimctl.printing import SOUND, UNREADABLE, UNSOUND, remark, say, table
from netclaimctl.uninstall import uninstall

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Look into netclaim's objects and check what must hold. Exit codes: 0 all is well, 1 something is not, "
    "2 the question could not be answered. As `kubectl-netclaim` in the PATH also a plugin: `kubectl netclaim ...`.",
)
app.add_typer(ipam.app, name="ipam")
app.command("uninstall")(uninstall)
app.add_typer(node.app, name="node")


STYLES: Final = {State.SOUND: "green", State.WAITING: "yellow", State.BROKEN: "red", State.UNREAD: "dim"}


@app.command("explain")
def tell_chain(
    claim: Annotated[str, typer.Argument(help="name of a NetworkInterfaceClaim")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="namespace of the claim")] = "default",
    kubeconfig: reading.CellKubeconfig = None,
    ipam_kubeconfig: reading.IpamKubeconfig = None,
    project_label: Annotated[
        str, typer.Option(help="label of a namespace that names its project, as nso is told it")
    ] = PROJECT_LABEL,
) -> None:
    """Tell the whole chain of one claim, from class to kernel, and the first thing that is not as it should be.

    Exit code 1 when there is such a thing, 2 when there is none in what could be read but IPAM could not be.
    """
    links = reading.run(_explain(claim, namespace, kubeconfig, ipam_kubeconfig or kubeconfig, project_label))
    rows = [(link.state.value, link.kind, link.name, link.says) for link in links]
    table(("State", "Kind", "Name", "What"), rows, [STYLES[link.state] for link in links])
    first = first_unsound(links)
    if first is not None:
        say(f"first: {first.kind} {first.name}: {first.says}", "bold")
        raise typer.Exit(UNSOUND)
    unread = next((link for link in links if link.kind == "Project" and link.state is State.UNREAD), None)
    if unread is not None:
        remark(f"netclaimctl: {unread.says}")
        raise typer.Exit(UNREADABLE)
    raise typer.Exit(SOUND)


async def _explain(
    claim: str, namespace: str, kubeconfig: str | None, ipam_kubeconfig: str | None, project_label: str
) -> list[Link]:
    async with reading.connected(kubeconfig, "the cell") as cell:
        return explain(await gather(cell, ipam_kubeconfig, namespace, claim, project_label))


def cli() -> None:
    """Entry point of the distribution."""
    app()


if __name__ == "__main__":
    cli()
