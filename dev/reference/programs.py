"""The page of flags and environment variables, from the settings of each program, and of netclaimctl's commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import click
import typer
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from dev.reference.markdown import cell, code, page, table
from netclaim.kube.settings import CommonSettings
from netclaimctl.__main__ import app
from node_agent.settings import Settings as AgentSettings
from nso.settings import Settings as NsoSettings
from vpc_controller.settings import Settings as VpcSettings
from webhook.settings import Settings as WebhookSettings

PROGRAMS: tuple[tuple[str, str, type[CommonSettings]], ...] = (
    ("nso", "Networks, claims, compute and IPAM; `--controllers` chooses.", NsoSettings),
    ("vpc-controller", "Identity, attachments and Programmed.", VpcSettings),
    ("netclaim-webhook", "Attaches Pods at their admission.", WebhookSettings),
    ("node-agent", "One node's data plane.", AgentSettings),
)


def pages() -> dict[str, str]:
    """File name -> text."""
    return {"programs.md": _programs(), "netclaimctl.md": _commands()}


def _programs() -> str:
    intro = (
        "Every setting is a flag and an environment variable; the flag wins. `PROGRAM --help` prints the same. A wrong"
        " or missing flag is one line on stderr and exit code 2."
    )
    return page("Flags and environment variables", intro, [_program(*each) for each in PROGRAMS])


def _program(name: str, about: str, settings: type[CommonSettings]) -> str:
    rows = (
        (
            code("--" + field.replace("_", "-")),
            code(f"NETCLAIM_{field.upper()}"),
            _type(info),
            "required" if info.is_required() else _default(info),
            info.description or "",
        )
        for field, info in settings.model_fields.items()
    )
    return f"## {name}\n\n{about}\n\n" + table(("flag", "variable", "value", "default", "description"), rows)


def _type(info: FieldInfo) -> str:
    """What may be written: the choices, or the type's plain name."""
    annotation: Any = info.annotation
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if get_origin(annotation) is Literal:
        return ", ".join(code(choice) for choice in parts)
    if get_origin(annotation) is tuple:
        return "comma list"
    if len(parts) == 1:
        annotation = parts[0]
    names = {"bool": "`true`, `false`", "str": "text", "int": "number", "float": "seconds", "timedelta": "duration"}
    names |= {"Path": "path", "IPv6Network": "IPv6 prefix", "IPv6Address": "IPv6 address"}
    return names[annotation.__name__]


def _default(info: FieldInfo) -> str:
    value = TypeAdapter(object).dump_python(info.default, mode="json")
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    text = value if isinstance(value, str) else json.dumps(value)
    return "" if text in {"", "null"} else code(text)


def _commands() -> str:
    root = typer.main.get_command(app)
    intro = f"{cell(root.help)}\n\nAs `kubectl netclaim ...` when `kubectl-netclaim` is in the PATH."
    return page("netclaimctl", intro, [_command(path, each) for path, each in _leaves("netclaimctl", root)])


def _leaves(path: str, command: Any) -> Iterator[tuple[str, click.Command]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _leaves(f"{path} {name}", child)


def _command(path: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join([path, *(each.name.upper() for each in arguments), "[OPTIONS]"])
    rows = [(code(each.name.upper()), "required", each.help or "") for each in arguments]
    for option in command.params:
        if option.param_type_name == "option" and not option.hidden:
            given = option.default
            shown = "" if given in {None, False, ()} or callable(given) else code(given)
            rows.append((", ".join(code(name) for name in option.opts), shown, option.help or ""))
    help_text = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    return f"## {path}\n\n`{usage}`\n\n{help_text}\n\n" + table(("option", "default", "description"), rows)
