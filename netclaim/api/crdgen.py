"""CustomResourceDefinitions from the models: structural schemas as an API server accepts them.

pydantic's JSON schema is turned into the subset that a structural schema allows: references are inlined, `X or null`
becomes an optional X, titles go. A kind without a description on any field, or with anything but ASCII in it, is
refused here, not on a user's cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from netclaim.api.meta import ApiModel, KubeObject, Raw
from netclaim.api.schema import Column, Definition, Rule

_DROPPED: Final = frozenset({"title", "$defs"})
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"

HEADER: Final = "# Generated from netclaim/api by `make crds`. Do not edit.\n"


class SchemaError(ValueError):
    """A model that no structural schema can be made of. `where` is the kind and the field."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class _Plain(yaml.SafeDumper):
    """Writes shared parts out each time: anchors are no help to a reader of a definition."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (the dumper's own signature)
        return True


def file_name(kind: type[KubeObject]) -> str:
    """Name of the kind's file in crds/: `<group>_<plural>.yaml`."""
    return f"{kind.RESOURCE.group}_{kind.RESOURCE.plural}.yaml"


def render(kind: type[KubeObject]) -> str:
    """The file of the kind's definition.

    Raises:
        SchemaError: a field has no description, a text is not ASCII, or a type has no structural form.
    """
    text = HEADER + yaml.dump(definition(kind), Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
    if not text.isascii():
        foreign = sorted({character for character in text if not character.isascii()})
        raise SchemaError(kind.RESOURCE.kind, f"only ASCII is allowed, found {foreign}")
    return text


def definition(kind: type[KubeObject]) -> Raw:
    """The CustomResourceDefinition object of a kind."""
    resource, details = kind.RESOURCE, kind.DEFINITION
    names: Raw = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.singular or resource.kind.lower(),
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if details.categories:
        names["categories"] = list(details.categories)
    version: Raw = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema(kind)},
    }
    if details.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in details.columns]
    if subresources := _subresources(details):
        version["subresources"] = subresources
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified_name},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def schema(kind: type[KubeObject]) -> Raw:
    """The structural schema of a kind."""
    generated = kind.model_json_schema(by_alias=True, mode="validation")
    rules = _rules_by_name(kind)
    root = _Structure(generated.get("$defs", {}), rules).convert(
        {key: value for key, value in generated.items() if key not in _DROPPED}, kind.RESOURCE.kind
    )
    properties = root["properties"]
    # The API server knows these three; it accepts no more than this of them.
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": properties[name]["description"]}
    properties["metadata"] = {"type": "object"}
    if kind.DEFINITION.rules:
        root["x-kubernetes-validations"] = [_rule(rule) for rule in kind.DEFINITION.rules]
    return root


def _subresources(details: Definition) -> Raw:
    made: Raw = {}
    if details.has_status:
        made["status"] = {}
    if details.scale:
        made["scale"] = {
            "specReplicasPath": details.scale.replicas,
            "statusReplicasPath": details.scale.status_replicas,
            "labelSelectorPath": details.scale.selector,
        }
    return made


def _column(column: Column) -> Raw:
    made: Raw = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.wide:
        made["priority"] = 1
    return made


def _rule(rule: Rule) -> Raw:
    return {"rule": rule.rule, "message": rule.message}


def _rules_by_name(kind: type[ApiModel]) -> dict[str, tuple[Rule, ...]]:
    """The rules of every model type that the kind is made of, by the type's name in the generated schema."""
    return {model.__name__: model.SCHEMA_RULES for model in _models(kind) if model.SCHEMA_RULES}


def _models(root: type[ApiModel]) -> Iterator[type[ApiModel]]:
    seen: set[type[ApiModel]] = set()
    waiting = [root]
    while waiting:
        model = waiting.pop()
        if model in seen:
            continue
        seen.add(model)
        yield model
        for info in model.model_fields.values():
            waiting.extend(_model_types(info.annotation))


def _model_types(annotation: Any) -> Iterable[type[ApiModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _model_types(argument)


class _Structure:
    """Turns one generated schema into a structural one."""

    def __init__(self, definitions: Raw, rules: dict[str, tuple[Rule, ...]]) -> None:
        self._definitions = definitions
        self._rules = rules

    def convert(self, node: Raw, where: str) -> Raw:
        """The structural form of a node; `where` names it in errors."""
        node = self._without_null(self._inlined(node), where)
        made = {key: value for key, value in node.items() if key not in _DROPPED}
        if "const" in made:
            made["enum"] = [made.pop("const")]
        if made.get("default", ...) is None:
            del made["default"]
        if "type" not in made:
            raise SchemaError(where, f"no structural type for {sorted(made)}")
        if "properties" in made:
            made["properties"] = {
                name: self._property(child, f"{where}.{name}") for name, child in made["properties"].items()
            }
        if "items" in made:
            made["items"] = self.convert(made["items"], f"{where}[]")
        self._convert_map(made, where)
        return _ordered(made)

    def _property(self, node: Raw, where: str) -> Raw:
        made = self.convert(node, where)
        if not made.get("description"):
            raise SchemaError(where, "every field needs a description: it is what kubectl explain shows")
        return made

    def _convert_map(self, made: Raw, where: str) -> None:
        extra = made.pop("additionalProperties", None)
        if isinstance(extra, dict) and extra:
            made["additionalProperties"] = self.convert(extra, f"{where}{{}}")
        elif extra is not None and extra is not False and not made.get(_PRESERVE):
            raise SchemaError(where, "a free-form object must be marked PRESERVED")

    def _inlined(self, node: Raw) -> Raw:
        """The node with its reference replaced by what it refers to; what stands beside the reference wins."""
        reference = node.get("$ref")
        if reference is None:
            return node
        name = reference.rsplit("/", 1)[1]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        target = dict(self._definitions[name])
        rules = [_rule(rule) for rule in self._rules.get(name, ())]
        rules += beside.pop("x-kubernetes-validations", [])
        if rules:
            target["x-kubernetes-validations"] = rules
        if "required" in beside:
            target["required"] = sorted({*target.get("required", []), *beside.pop("required")})
        return self._inlined({**target, **beside})

    def _without_null(self, node: Raw, where: str) -> Raw:
        """`X or null` as X: a field that may be left out."""
        choices = node.get("anyOf")
        if choices is None:
            return node
        kept = [choice for choice in choices if choice != {"type": "null"}]
        if len(kept) != 1:
            raise SchemaError(where, f"a structural schema has one type, not {len(kept)}")
        beside = {key: value for key, value in node.items() if key != "anyOf"}
        inner = self._inlined(kept[0])
        rules = [*inner.get("x-kubernetes-validations", []), *beside.pop("x-kubernetes-validations", [])]
        merged = {**inner, **beside}
        if rules:
            merged["x-kubernetes-validations"] = rules
        return merged


_ORDER: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "properties",
    "items",
    "additionalProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    _PRESERVE,
    "x-kubernetes-validations",
)


def _ordered(node: Raw) -> Raw:
    """The keywords in reading order. A keyword that is not known here is not known to be structural."""
    unknown = sorted(set(node) - set(_ORDER))
    if unknown:
        raise SchemaError(str(node.get("description", "")), f"keywords {unknown} are not structural")
    return {keyword: node[keyword] for keyword in _ORDER if keyword in node}
