"""Pages of the API: each kind with its fields, defaults, validation, columns and conditions, from crdgen's schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dev.reference.markdown import code, page, table
from netclaim.api import crdgen
from netclaim.api.kinds import KINDS
from netclaim.api.meta import KubeObject

Schema = Mapping[str, Any]

GROUPS: Final[Mapping[str, str]] = {
    "compute.datumapis.com": "What runs: workloads, and the instances that fill their slots.",
    "networking.datumapis.com": "What a consumer asks for (networks, claims) and what it gets (interfaces).",
    "ipam.datumapis.com": "The IPAM control plane: one Namespace is one project.",
    "cloud.datumapis.com": "What realizes a network in a cell and an interface on a node.",
    "network.datumapis.com": "How nodes tell each other which prefixes they carry. In the system namespace.",
    "k8s.cni.cncf.io": "The published kind of the Network Plumbing Working Group, as Multus reads it.",
}
"""Order of the pages, and what each is about."""

_LIMITS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " entries"),
)
_LEAVES: Final = frozenset({"conditions"})
"""Fields whose inside is told once, on the page's end."""


def pages() -> dict[str, str]:
    """File name -> text, one page a group."""
    return {f"{group}.md": _group(group, about) for group, about in GROUPS.items()}


def _group(group: str, about: str) -> str:
    kinds = [kind for kind in KINDS if kind.RESOURCE.group == group]
    version = kinds[0].RESOURCE.version
    listed = ", ".join(f"[{kind.RESOURCE.kind}](#{kind.RESOURCE.kind.lower()})" for kind in kinds)
    intro = f"{about} `apiVersion: {group}/{version}`. Kinds: {listed}.\n\nA field with a `*` is required."
    if any("conditions" in _status(crdgen.schema(kind)) for kind in kinds):
        intro += (
            " Every condition has `type`, `status` (True, False or Unknown), `reason` (one word), `message` (what, for"
            " whom, why, and what to do next), `observedGeneration` and `lastTransitionTime`. The reasons are in"
            " [reasons.md](reasons.md)."
        )
    return page(group, intro, [_kind(kind) for kind in kinds])


def _kind(kind: type[KubeObject]) -> str:
    resource, details, schema = kind.RESOURCE, kind.DEFINITION, crdgen.schema(kind)
    short = ", ".join(code(name) for name in resource.short_names)
    facts = [f"{'Namespaced' if resource.namespaced else 'Cluster-scoped'}. Plural `{resource.plural}`"]
    facts += [f"short {short}"] if short else []
    facts += ["has the scale subresource"] if details.scale else []
    columns = ", ".join(column.name + (" (wide)" if column.wide else "") for column in details.columns)
    sections = [
        f"## {resource.kind}\n\n{schema['description']}\n\n{'; '.join(facts)}.\n",
        *(f"- {rule.message}.\n" for rule in details.rules),
        table(("field", "type", "default", "validation", "description"), _rows(schema, "", set())),
        table(
            ("condition", "written by", "tells"),
            ((code(each.type), code(each.writer), each.tells) for each in details.conditions),
        ),
        f"Columns of `kubectl get`: {columns}.\n" if columns else "",
    ]
    return "\n".join(each for each in sections if each)


def _status(schema: Schema) -> Mapping[str, Any]:
    status: Mapping[str, Any] = schema["properties"].get("status", {}).get("properties", {})
    return status


def _rows(node: Schema, path: str, required: set[str]) -> Iterator[tuple[str, ...]]:
    """One row for each field below `node`, parents before children."""
    required = set(node.get("required", ()))
    for name, child in node.get("properties", {}).items():
        if not path and name in {"apiVersion", "kind", "metadata"}:
            continue
        where = f"{path}.{name}" if path else name
        star = "*" if name in required else ""
        yield (
            code(where) + star,
            _type(child),
            code(json.dumps(child["default"])) if "default" in child else "",
            _validation(child),
            child.get("description", ""),
        )
        if name not in _LEAVES:
            yield from _rows(*_inside(child, where), set())


def _inside(node: Schema, path: str) -> tuple[Schema, str]:
    """Where the fields of a node are: its own, its items', or its values'."""
    if "items" in node:
        return _inside(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        return _inside(node["additionalProperties"], f"{path}.<key>")
    return node, path


def _type(node: Schema) -> str:
    if "items" in node:
        return f"list of {_type(node['items'])}"
    if isinstance(node.get("additionalProperties"), dict):
        return f"map to {_type(node['additionalProperties'])}"
    return str(node.get("format") or node["type"])


def _validation(node: Schema) -> str:
    """Everything that the API server checks of the field, in words."""
    told = []
    if "enum" in node:
        told.append("one of " + ", ".join(code(value) for value in node["enum"]))
    told += [
        _range(node.get(least), node.get(most), unit) for least, most, unit in _LIMITS if {least, most} & set(node)
    ]
    if node.get("x-kubernetes-list-type") == "map":
        told.append(f"unique by {', '.join(code(key) for key in node['x-kubernetes-list-map-keys'])}")
    if node.get("x-kubernetes-list-type") == "set":
        told.append("each item once")
    if node.get("x-kubernetes-preserve-unknown-fields"):
        told.append("stored as it is")
    told += [rule["message"] for rule in node.get("x-kubernetes-validations", ())]
    if "items" in node and (inner := _validation(node["items"])):
        told.append(f"each: {inner}")
    return "; ".join(told)


def _range(least: int | None, most: int | None, unit: str) -> str:
    """Both ends of a limit in one phrase."""
    if least is None or most is None:
        return f"at least {least}{unit}" if most is None else f"at most {most}{unit}"
    return f"{least} to {most}{unit}"
