"""crds/ is what the types generate, and nothing that an API server would refuse (R19)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import yaml
from pydantic import Field

from netclaim.api import crdgen
from netclaim.api.__main__ import write
from netclaim.api.kinds import KINDS
from netclaim.api.meta import ApiModel, KubeObject
from netclaim.api.resources import Resource
from netclaim.api.schema import AGE, Column, Definition, Hints, Rule

ROOT = Path(__file__).resolve().parents[2]
OURS = [kind for kind in KINDS if kind.DEFINITION.categories]
COLUMNS = {
    "Network": "Families MTU Ready Reason Age",
    "NetworkContext": "Network Location Ready Reason Age",
    "Subnet": "Context Family CIDR Gateway Ready Age",
    "NetworkInterfaceClaim": "Network Interface Address External Ready Reason Age",
    "NetworkInterface": "Network Phase Claim Address VPC Prepared Programmed Age",
    "VPC": "ID Networks Ready Age",
    "VPCAttachment": "VPC Mode ID Node Host-Interface Programmed Age",
    "IPPool": "CIDR Family Classes Used Free Utilization Age",
    "Workload": "Desired Replicas Ready Up-to-date Available Reason Age",
    "Instance": "Age,Ready,Reason,Network IP,External IP",
}


def test_the_committed_files_are_what_the_types_generate() -> None:
    """R19: run `make crds` when this fails."""
    committed = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
    generated = {crdgen.file_name(kind): crdgen.render(kind) for kind in KINDS}
    assert committed == generated


def test_writing_twice_changes_nothing_and_removes_what_no_kind_has(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("kind: Gone")
    assert len(write(tmp_path)) == len(KINDS) + 1
    assert not (tmp_path / "old.yaml").exists()
    assert write(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_of_every_kind_is_described(kind: type[KubeObject]) -> None:
    for where, node in _fields(crdgen.schema(kind), kind.__name__):
        assert node.get("description") or where.endswith(".metadata"), where


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_rule_and_message_is_ascii(kind: type[KubeObject]) -> None:
    """R19: a smart quote in a rule is a definition that no API server installs."""
    assert crdgen.render(kind).isascii()


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_own_kind_has_conditions_that_are_merged_by_type_and_default_to_none(kind: type[KubeObject]) -> None:
    conditions = crdgen.schema(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["default"] == []
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    item = conditions["items"]["properties"]
    assert (item["status"]["default"], item["reason"]["default"]) == ("Unknown", "Pending")
    assert conditions["items"]["required"] == ["type"]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_own_kind_has_status_category_and_columns(kind: type[KubeObject]) -> None:
    definition = crdgen.definition(kind)["spec"]
    version = definition["versions"][0]
    assert version["subresources"]["status"] == {}
    assert definition["names"]["categories"] == ["netclaim"]
    assert "Age" in [column["name"] for column in version["additionalPrinterColumns"]]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.__name__ in COLUMNS], ids=lambda kind: kind.__name__)
def test_columns_are_those_of_the_specification_in_its_order(kind: type[KubeObject]) -> None:
    listed = COLUMNS[kind.__name__]
    expected = listed.split(",") if "," in listed else listed.split()
    assert [column.name for column in kind.DEFINITION.columns if not column.wide] == expected


def test_only_conditions_are_required_in_the_status_of_an_attachment() -> None:
    """R17."""
    attachment = next(kind for kind in KINDS if kind.__name__ == "VPCAttachment")
    assert crdgen.schema(attachment)["properties"]["status"]["required"] == ["conditions"]


def test_a_workload_can_be_scaled() -> None:
    workload = next(kind for kind in KINDS if kind.__name__ == "Workload")
    assert crdgen.definition(workload)["spec"]["versions"][0]["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


def test_the_published_files_are_plain_yaml_without_anchors() -> None:
    for path in (ROOT / "crds").glob("*.yaml"):
        text = path.read_text()
        assert "&id" not in text
        assert yaml.safe_load(text)["kind"] == "CustomResourceDefinition"


class Part(ApiModel):
    """A part."""

    size: Annotated[int, Rule("self > 1", "write more than 1")] | None = Field(default=None, description="Size.")


def _kind(**fields: Any) -> type[KubeObject]:
    """A kind with these fields, as (type, default)."""
    body: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": "A kind.",
        "__annotations__": {
            "RESOURCE": ClassVar[Resource],
            "DEFINITION": ClassVar[Definition],
            **{name: annotation for name, (annotation, _) in fields.items()},
        },
        "RESOURCE": Resource("test.datumapis.com", "v1", "things", "Thing"),
        "DEFINITION": Definition(columns=(Column("Size", ".spec.size"), AGE)),
        **{name: default for name, (_, default) in fields.items()},
    }
    return type("Thing", (KubeObject,), body)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"spec": (str, Field())}, "Thing.spec: every field needs a description"),
        ({"spec": (str, Field(description="dash \u2013 dash"))}, "only ASCII"),
        ({"spec": (dict[str, Any], Field(description="d"))}, "must be marked PRESERVED"),
        ({"spec": (int | str, Field(description="d"))}, "one type, not 2"),
        ({"spec": (Any, Field(description="d"))}, "no structural type"),
        ({"spec": (Annotated[str, Hints({"examples": ["x"]})], Field(description="d"))}, "not structural"),
        ({"spec": (Annotated[str, Rule("self == \u201dx\u201d", "m")], Field(description="d"))}, "only ASCII"),
    ],
)
def test_a_type_that_makes_no_valid_definition_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(crdgen.SchemaError, match=problem):
        crdgen.render(_kind(**fields))


def test_rules_of_an_optional_field_and_beside_a_reference_are_kept() -> None:
    thing = _kind(
        spec=(Annotated[Part, Rule("self == oldSelf", "never changes")], Field(description="Spec.")),
    )
    spec = crdgen.schema(thing)["properties"]["spec"]
    assert spec["description"] == "Spec."
    assert spec["x-kubernetes-validations"] == [{"rule": "self == oldSelf", "message": "never changes"}]
    assert spec["properties"]["size"] == {
        "description": "Size.",
        "type": "integer",
        "x-kubernetes-validations": [{"rule": "self > 1", "message": "write more than 1"}],
    }


def _fields(node: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        yield f"{where}.{name}", child
        yield from _fields(child, f"{where}.{name}")
    if "items" in node:
        yield from _fields(node["items"], f"{where}[]")
    if "additionalProperties" in node:
        yield from _fields(node["additionalProperties"], f"{where}{{}}")
