"""The plan of a VPC: identity first, then the object, then its status (R25)."""

from typing import Any

from netclaim.api.cloud import VPC
from netclaim.api.networking import NetworkContext, Subnet
from netclaim.kube.writes import Apply, ApplyStatus, Create, Emit
from vpc_controller.identifiers import Draw, Holder
from vpc_controller.vpc_plan import Observed, exhausted, plan


def context(**metadata: Any) -> NetworkContext:
    return NetworkContext.model_validate(
        {
            "metadata": {"name": "default-home", "namespace": "shop", "uid": "u-context", **metadata},
            "spec": {"network": {"name": "default"}, "location": "home"},
        }
    )


def subnet(family: str, start: str | None, length: int | None) -> Subnet:
    status = {"startAddress": start, "prefixLength": length} if start else {}
    return Subnet.model_validate(
        {
            "metadata": {"name": f"default-home-{family.lower()}", "namespace": "shop"},
            "spec": {"networkContext": {"name": "default-home"}, "ipFamily": family},
            "status": status,
        }
    )


def vpc(owner: str = "u-context", networks: list[str] | None = None, **parts: Any) -> VPC:
    return VPC.model_validate(
        {
            "metadata": {
                "name": "default-home",
                "namespace": "shop",
                "uid": "u-vpc",
                "resourceVersion": "9",
                "generation": 1,
                "ownerReferences": [
                    {
                        "apiVersion": "networking.datumapis.com/v1alpha",
                        "kind": parts.pop("owner_kind", "NetworkContext"),
                        "name": "default-home",
                        "uid": owner,
                        "controller": True,
                    }
                ],
                **parts.pop("metadata", {}),
            },
            "spec": {"networkContextRef": {"name": "default-home"}, "networks": networks or []},
            **parts,
        }
    )


V6, V4 = subnet("IPv6", "fd20::", 64), subnet("IPv4", "10.1.0.0", 20)


def test_a_context_without_identifier_draws_before_anything_is_written() -> None:
    """R25, R32."""
    planned = plan(Observed(context(), (), None, None))
    assert planned.writes == ()
    assert planned.draw == Draw(Holder("NetworkContext", "shop", "default-home", "u-context"))


def test_a_new_vpc_is_created_with_the_ranges_of_its_subnets_and_then_gets_its_status() -> None:
    """R25: the VPC carries the context's name, is owned by it and publishes its identifier in base62."""
    create, status = plan(Observed(context(), (V6, V4, subnet("IPv6", None, None)), None, 1234)).writes
    assert isinstance(create, Create)
    assert isinstance(status, ApplyStatus)
    assert create.obj["metadata"]["name"] == "default-home"
    assert create.obj["metadata"]["ownerReferences"][0]["uid"] == "u-context"
    assert create.obj["spec"] == {
        "networkContextRef": {"name": "default-home"},
        "networks": ["10.1.0.0/20", "fd20::/64"],
    }
    assert status.status["vpc"] == "jU"
    assert (status.status["conditions"][0]["status"], status.manager) == ("True", "vpc-controller")


def test_the_vpc_follows_subnets_that_come_later() -> None:
    """spec.networks follows the subnets, and nothing is written when it already does."""
    seen = Observed(context(), (V6, V4), vpc(networks=["fd20::/64"]), 1234)
    update, _ = plan(seen).writes
    assert isinstance(update, Apply)
    assert update.obj["metadata"]["uid"] == "u-vpc"
    assert update.obj["spec"]["networks"] == ["10.1.0.0/20", "fd20::/64"]
    settled = Observed(context(), (V6, V4), vpc(networks=["10.1.0.0/20", "fd20::/64"]), 1234)
    assert [type(write) for write in plan(settled).writes] == [ApplyStatus]


def test_an_identifier_that_was_deleted_by_hand_is_taken_up_again_with_its_value() -> None:
    """R32: identity survives the hand deletion of the object that holds it."""
    planned = plan(Observed(context(), (), vpc(status={"vpc": "jU", "conditions": []}), None))
    assert planned.draw is not None
    assert planned.draw.again == 1234


def test_another_identity_is_said_only_over_the_version_that_was_seen() -> None:
    """R32: a leader that was thought gone and wakes up does not overtake its successor."""
    for identifier, version in ((1234, None), (1235, "9")):
        told = plan(Observed(context(), (), vpc(status={"vpc": "jU", "conditions": []}), identifier)).writes[-1]
        assert isinstance(told, ApplyStatus)
        assert told.resource_version == version


def test_a_vpc_of_somebody_else_is_refused_by_name_and_not_touched() -> None:
    (event,) = plan(Observed(context(), (V6,), vpc(owner="u-other", owner_kind="Team"), 1234)).writes
    assert isinstance(event, Emit)
    assert event.reason == "NameConflict"
    assert "default-home" in event.note


def test_the_vpc_of_an_earlier_context_of_that_name_is_waited_for() -> None:
    """T06: it goes with its owner; ours is made when it is gone."""
    assert plan(Observed(context(), (V6,), vpc(owner="u-earlier"), 1234)).writes == ()


def test_nothing_is_made_for_a_context_that_is_gone_or_going() -> None:
    going = context(deletionTimestamp="2026-01-01T00:00:00Z")
    assert plan(Observed(None, (), None, None)).writes == ()
    assert plan(Observed(going, (), None, None)) == plan(Observed(None, (), None, None))
    assert plan(Observed(context(), (), vpc(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), 1)).writes == ()


def test_a_cell_without_free_identifiers_is_said_on_the_vpc() -> None:
    """T31: exhaustion is a condition, not an endless retry."""
    *_, status = exhausted(Observed(context(), (V6,), None, None)).writes
    assert isinstance(status, ApplyStatus)
    assert status.status["conditions"][0]["reason"] == "IdentifiersExhausted"
    assert "vpc" not in status.status
