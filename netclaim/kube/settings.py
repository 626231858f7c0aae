"""What every program can be told, by flag or by environment variable."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

S = TypeVar("S", bound=BaseSettings)


class CommonSettings(BaseSettings):
    """Every field is a flag (`--lease-name`) and an environment variable (`NETCLAIM_LEASE_NAME`); the flag wins."""

    model_config = SettingsConfigDict(
        env_prefix="NETCLAIM_",
        cli_kebab_case=True,
        cli_exit_on_error=False,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_implicit_flags=False,
        extra="ignore",
        frozen=True,
    )

    kubeconfig: str | None = Field(
        default=None, description="Kubeconfig of the cell. Without it: in-cluster configuration, else $KUBECONFIG."
    )
    metrics_address: str = Field(
        default="127.0.0.1:0",
        description="host:port that serves /metrics, /healthz and /readyz; port 0 takes any and logs it; empty: none.",
    )
    leader_elect: bool = Field(default=True, description="Work only while holding the Lease.")
    lease_name: str = Field(default="", description="Name of the Lease; the program's name when empty.")
    system_namespace: str = Field(
        default="netclaim-system", description="Namespace of the Lease and of the programs' own objects."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level that is logged."
    )


def parse(settings_class: type[S], argv: Sequence[str], *, program: str) -> S:
    """The settings of a command line and the environment.

    A wrong or missing flag is one line on stderr, `<program>: error: --attachment-mode is required: ...`, and exit
    code 2. `--help` prints the reference and exits with 0.
    """
    try:
        return settings_class(_cli_parse_args=list(argv), _cli_prog_name=program)
    except ValidationError as error:
        reasons = [_reason(settings_class, dict(each)) for each in error.errors(include_url=False)]
    except SettingsError as error:
        reasons = [str(error).removeprefix("error parsing CLI: ")]
    sys.stderr.write("".join(f"{program}: error: {reason}\n" for reason in reasons))
    raise SystemExit(2)


def _reason(settings_class: type[BaseSettings], error: dict[str, object]) -> str:
    """One line about one validation error."""
    location = error.get("loc")
    names = [str(part) for part in location] if isinstance(location, tuple) else []
    message = str(error.get("msg")).removeprefix("Value error, ")
    if not names:
        return message
    field: FieldInfo | None = settings_class.model_fields.get(names[0])
    flag = "--" + names[0].replace("_", "-")
    if error.get("type") == "missing":
        described = f": {field.description}" if field is not None and field.description else ""
        return f"{flag} is required{described}"
    return f"{flag} {error.get('input')!r}: {message}"
