"""The Pod annotation that lists further networks, read and extended in the form that it is in. Pure.

Multus reads two forms: a comma list of `[namespace/]name[@interface]`, and a JSON list of objects with `name`,
`namespace`, `interface` and more. Its comma form takes names without dots alone, so a network whose name has one can
only be written as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_JSON_MARKS = frozenset('[{"')


class UnreadableError(ValueError):
    """An annotation that Multus could not read either."""


@dataclass(frozen=True, slots=True)
class Selection:
    """One network that a Pod asks for. `interface` is empty where Multus chooses (net1, net2...).

    `extra` holds further keys of the JSON form (ips, mac...), which are kept as they are.
    """

    namespace: str
    name: str
    interface: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def network(self) -> tuple[str, str]:
        """(namespace, name) of the NetworkAttachmentDefinition."""
        return (self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" + (f"@{self.interface}" if self.interface else "")

    def as_json(self) -> dict[str, Any]:
        """The object of the JSON form."""
        named = {"name": self.name, "namespace": self.namespace}
        if self.interface:
            named["interface"] = self.interface
        return {**named, **self.extra}

    @property
    def fits_comma_form(self) -> bool:
        """Whether the comma form can say this."""
        return not self.extra and bool(_LABEL.fullmatch(self.name) and _LABEL.fullmatch(self.namespace))


def is_json(text: str) -> bool:
    """Whether Multus reads the annotation as JSON."""
    return any(mark in _JSON_MARKS for mark in text)


def read(text: str, namespace: str) -> list[Selection]:
    """The networks of an annotation; `namespace` is the Pod's, for entries that name none.

    Raises:
        UnreadableError: broken JSON, JSON of another shape, or a comma entry that is not `[ns/]name[@interface]`.
    """
    if not text.strip():
        return []
    return _read_json(text, namespace) if is_json(text) else [_read_item(item, namespace) for item in text.split(",")]


def _read_json(text: str, namespace: str) -> list[Selection]:
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise UnreadableError(f"broken JSON ({error})") from error
    if not isinstance(listed, list):
        raise UnreadableError("its JSON is not a list")
    return [_read_object(item, namespace) for item in listed]


def _read_object(item: Any, namespace: str) -> Selection:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        raise UnreadableError(f"a JSON entry has no name: {json.dumps(item)}")
    for key in ("namespace", "interface"):
        if not isinstance(item.get(key, ""), str):
            raise UnreadableError(f"{key} of a JSON entry is not text: {json.dumps(item)}")
    extra = {key: value for key, value in item.items() if key not in ("name", "namespace", "interface")}
    return Selection(item.get("namespace") or namespace, item["name"], item.get("interface") or "", extra)


def _read_item(item: str, namespace: str) -> Selection:
    path, *interface = item.strip().split("@")
    parts = [part.strip() for part in path.split("/")]
    if len(interface) > 1 or len(parts) > 2 or not all(_LABEL.fullmatch(part) for part in parts):
        raise UnreadableError(f"{item.strip()!r} is not [namespace/]name[@interface]")
    return Selection(parts[0] if len(parts) == 2 else namespace, parts[-1], interface[0].strip() if interface else "")


def write(selections: Iterable[Selection], *, as_json: bool) -> str:
    """The annotation's text, in the comma form unless `as_json` or one of the networks cannot be said in it."""
    listed = list(selections)
    if as_json or not all(selection.fits_comma_form for selection in listed):
        return json.dumps([selection.as_json() for selection in listed], separators=(",", ":"))
    return ",".join(str(selection) for selection in listed)
