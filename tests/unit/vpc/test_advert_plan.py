"""What Programmed says, and that an advertisement finds its own attachment (R20, R24, R27, R32, T31)."""

import random
from typing import Any

import pytest

from netclaim import identity
from netclaim.api import cloud
from netclaim.api.cloud import VPCAttachment
from netclaim.api.network import BGPAdvertisement
from netclaim.api.networking import NetworkInterface
from netclaim.kube.writes import ApplyStatus
from nso.claims import reasons as claim_reasons
from vpc_controller import reasons
from vpc_controller.advert_plan import Heard, Observed, exists, is_about, plan


def attachment(
    *,
    vpc: str = "3e",
    mine: str = "1a",
    uid: str = "u-a",
    container: str | None = "c-1",
    node: str | None = "n1",
    **more: Any,
) -> VPCAttachment:
    facts = {"node": node, "containerID": container, "podUID": "p" if container else None}
    return VPCAttachment.model_validate(
        {
            "metadata": {"name": "web-0-eth0", "namespace": "shop", "uid": uid, "resourceVersion": "5"},
            "spec": {"vpc": {"name": "v"}, "claimUID": "c", "interface": {"name": "eth0", "mode": "Netns"}},
            "status": {"vpc": vpc, "vpcAttachment": mine, "conditions": [], **facts, **more},
        }
    )


def heard(
    of: VPCAttachment,
    *,
    said: str | None = "True",
    container: str | None = "c-1",
    node: str | None = "n1",
    up: bool = True,
) -> Heard:
    told = [{"type": "Advertised", "status": said, "reason": "R", "message": "m"}] if said else []
    return Heard(
        BGPAdvertisement.model_validate(
            {
                "metadata": {
                    "name": "c8-48",
                    "labels": {cloud.VPC_LABEL: of.status.vpc, cloud.VPC_ATTACHMENT_LABEL: of.status.vpc_attachment},
                },
                "spec": {
                    "routerRef": {"name": "n1"},
                    "attachmentRef": {"namespace": of.namespace, "name": of.name, "uid": of.uid},
                    "containerID": container,
                    "prefixes": ["10.1.0.7/32"],
                },
                "status": {"conditions": told},
            }
        ),
        node,
        up,
    )


def interface(programmed: tuple[str, str] | None = ("Unknown", "Pending"), claim: str = "c") -> NetworkInterface:
    conditions = [{"type": "Programmed", "status": programmed[0], "reason": programmed[1]}] if programmed else []
    return NetworkInterface.model_validate(
        {
            "metadata": {"name": "web-0-eth0", "namespace": "shop"},
            "spec": {
                "network": {"name": "d"},
                "mtu": 1400,
                "claimRef": {"name": "c", "uid": claim},
                "addresses": [{"family": "IPv4", "address": "10.1.0.7/32", "primary": True}],
            },
            "status": {"conditions": conditions},
        }
    )


def programmed(seen: Observed, kind: str = "NetworkInterface") -> tuple[str, str] | None:
    told = [
        w.status["conditions"][0]
        for w in plan(seen).writes
        if isinstance(w, ApplyStatus) and w.resource.kind == kind and w.status.get("conditions")
    ]
    return (told[0]["status"], told[0]["reason"]) if told else None


A = attachment()


@pytest.mark.parametrize(
    ("adverts", "verdict"),
    [
        ((heard(A),), ("True", "Programmed")),
        ((heard(A, said=None),), ("Unknown", "AwaitingDataPlane")),
        ((heard(A, said="Unknown"),), ("Unknown", "AwaitingDataPlane")),
        ((heard(A, said="False"),), ("False", "Detached")),
        ((heard(A, container="c-0"),), ("Unknown", "AwaitingDataPlane")),
        ((heard(A, up=False),), ("False", "NodeGone")),
        ((heard(A, said="False"), heard(A)), ("True", "Programmed")),
        ((heard(A, up=False), heard(A)), ("True", "Programmed")),
        ((heard(A, container=None),), ("True", "Programmed")),
    ],
)
def test_programmed_is_what_a_living_node_says(adverts: tuple[Heard, ...], verdict: tuple[str, str]) -> None:
    """R27."""
    assert programmed(Observed(interface(), None, A, adverts)) == verdict
    assert programmed(Observed(interface(), None, A, adverts), "VPCAttachment") == verdict


@pytest.mark.parametrize("adverts", [(), (heard(A, node=None, up=False),), (heard(attachment(uid="other")),)])
def test_without_an_advertisement_the_seed_stays_and_what_was_programmed_is_detached(
    adverts: tuple[Heard, ...],
) -> None:
    """R24, R31: an interface that was never attached stays Unknown; a stale True is corrected."""
    assert programmed(Observed(interface(), None, A, adverts)) is None
    assert programmed(Observed(interface(None), None, A, adverts)) is None
    for earlier in (("True", "Programmed"), ("Unknown", "AwaitingDataPlane"), ("False", "PreviousHolderAttached")):
        assert programmed(Observed(interface(earlier), None, A, adverts)) == ("False", "Detached")
    assert programmed(Observed(interface(("False", "NodeGone")), None, A, adverts)) == ("False", "NodeGone")
    assert programmed(Observed(interface(("True", "Programmed")), None, None)) == ("False", "Detached")


def test_a_fresh_advertisement_is_given_a_moment_before_anything_is_said() -> None:
    """T32: three writes less for each Pod; a stale True is corrected at once all the same."""
    silent = (heard(A, said=None),)
    seen = Observed(interface(), None, A, silent, is_fresh=True)
    assert programmed(seen) is None
    assert plan(seen).waits
    stale = Observed(interface(("True", "Programmed")), None, A, silent, is_fresh=True)
    assert programmed(stale) == ("Unknown", "AwaitingDataPlane")
    assert programmed(Observed(interface(), None, A, (heard(A),), is_fresh=True)) == ("True", "Programmed")


def test_the_next_claim_hears_of_the_previous_holder_and_the_attachment_of_the_truth() -> None:
    seen = Observed(interface(claim="next"), None, A, (heard(A),))
    assert programmed(seen) == ("False", "PreviousHolderAttached")
    assert programmed(seen, "VPCAttachment") == ("True", "Programmed")


def test_facts_of_a_lost_node_are_up_for_clearing() -> None:
    """T08: only after the API server itself has confirmed the loss."""
    planned = plan(Observed(interface(), None, A, (heard(A, up=False),), facts_node_exists=False))
    assert planned.lost_node == "n1"
    assert all(write.manager != "node-agent" for write in planned.writes if isinstance(write, ApplyStatus))


def test_facts_are_ours_to_write_only_where_no_container_is_named() -> None:
    """A data plane that writes advertisements alone has its facts filled in, and cleared with the advertisement."""

    def as_agent(seen: Observed) -> list[dict[str, Any]]:
        return [w.status for w in plan(seen).writes if isinstance(w, ApplyStatus) and w.manager == "node-agent"]

    bare = attachment(container=None, node=None)
    assert as_agent(Observed(interface(), None, bare, (heard(bare, container=None),))) == [
        {
            "node": "n1",
            "hostInterface": "G00000003e01aH",
            "vrfInterface": "G00000003eV",
            "podSubnet": "10.1.0.7/32",
            "podSubnets": ["10.1.0.7/32"],
        }
    ]
    assert as_agent(Observed(interface(), None, attachment(container=None))) == [{}]
    assert as_agent(Observed(interface(), None, bare)) == []
    assert as_agent(Observed(interface(), None, bare, (heard(bare, container="c-1"),))) == []
    assert as_agent(Observed(interface(), None, A)) == []


@pytest.mark.parametrize(
    ("node", "there"),
    [
        (None, False),
        ({"spec": {}}, True),
        ({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready"}]}}, True),
        ({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service"}]}}, False),
    ],
)
def test_a_node_is_gone_when_deleted_or_out_of_service(node: dict[str, Any] | None, there: bool) -> None:
    """T08: not merely NotReady."""
    assert exists(node) is there


def test_an_identity_leads_from_the_attachment_to_its_names_and_back_to_it_alone() -> None:
    """The contract, over 10,000 random identifiers and those whose texts resemble each other (R20, T31)."""
    chance = random.Random(20_000)
    numbers = [(chance.randrange(1, 2**48 - 1), chance.randrange(1, 2**16 - 1)) for _ in range(10_000)]
    numbers += [(a, b) for a in (10, 36, 62, 620, 2241) for b in (1, 10, 36, 62, 65534)]
    for number, (vpc, mine) in enumerate(numbers):
        texts = identity.to_base62(vpc), identity.to_base62(mine)
        device = identity.host_interface(vpc, mine)
        name = identity.advertisement_name(vpc, mine)
        assert identity.parse_host_interface(device) == (vpc, mine)
        assert len(device) <= 15
        assert name == name.lower()
        assert identity.is_object_name(name)
        ours = attachment(vpc=texts[0], mine=texts[1])
        assert is_about(heard(ours), ours)
        if number % 10 and number < 10_000:
            continue
        for other in (
            attachment(vpc=texts[0].swapcase(), mine=texts[1]),
            attachment(vpc=texts[1], mine=texts[0][-3:]),
            attachment(vpc=texts[0].rjust(9, "0"), mine=texts[1]),
            attachment(vpc=texts[0], mine=texts[1], uid="u-b"),
        ):
            same = (other.status.vpc, other.status.vpc_attachment, other.uid) == (*texts, ours.uid)
            assert is_about(heard(ours), other) is same


def test_the_seed_of_another_program_is_not_taken_for_our_own_word() -> None:
    """R31: an interface that was only seeded has not been programmed before, so it was not detached either."""
    assert claim_reasons.NOT_REPORTED.name not in reasons.PROGRAMMED_REASONS
    assert programmed(Observed(interface(("Unknown", claim_reasons.NOT_REPORTED.name)), None, A, ())) is None
