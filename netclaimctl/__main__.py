"""``netclaimctl``: an operator's questions to the control planes, answered from live objects."""

import typer

from netclaimctl import ipam

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Look into netclaim's objects and check what must hold. Exit codes: 0 all is well, 1 something is not, "
    "2 the question could not be answered. As `kubectl-netclaim` in the PATH also a plugin: `kubectl netclaim ...`.",
)
app.add_typer(ipam.app, name="ipam")


def cli() -> None:
    """Entry point of the distribution."""
    app()


if __name__ == "__main__":
    cli()
