"""One identity on its way through all programs: definition -> device -> advertisement -> back to its attachment (T31).

What one program writes is read by the next one's own code, for ten thousand attachments in one cell.
"""

import itertools
import json
import random
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv6Address, IPv6Network
from typing import Any

import pytest

from netclaim import identity
from netclaim.api import resources
from netclaim.api.cloud import VPCAttachment
from netclaim.api.network import BGPAdvertisement
from netclaim.kube.store import Store
from node_agent.cni import refusals
from node_agent.cni.attachment import check_identity, plan_attachment, read_attachment
from node_agent.cni.protocol import Call, Pointer
from node_agent.cni.refusals import Refusal
from node_agent.datapath.model import Record
from node_agent.report import Router, advertisement_object, labelled_identity
from node_agent.rows import Row, State
from vpc_controller import adverts, identifiers, nad
from vpc_controller.advert_plan import Heard, is_about

Raw = dict[str, Any]
Numbers = tuple[int, int]
SYSTEM = "netclaim-system"
ROUTER = Router("n1", IPv6Network("fd00:ff:0:1::/64"), IPv6Address("fd00:aa::1"), "u-router")
RANDOM = 10_000
TEXTS = ("a", "A", "aa", "aA", "Aa", "AA", "1", "l", "I", "10", "1a", "a1", "O", "o", "Z", "z", "g", "G", "ab", "abc")


def identities() -> list[Numbers]:
    """Random ones, and those whose texts resemble each other: by case, by where the VPC ends, as hex and as base62."""
    chance = random.Random(20_000)
    drawn = {(chance.randrange(1, 2**48 - 1), chance.randrange(1, 2**16 - 1)) for _ in range(RANDOM)}
    alike = {
        (identity.from_base62(vpc), identity.from_base62(mine)) for vpc, mine in itertools.product(TEXTS, repeat=2)
    }
    alike |= {(int(text, 16), int(text, 16)) for text in ("a", "aa", "10", "1a", "ab", "abc", "ffff")}
    edges = set(itertools.product((1, 2, 2**48 - 2), (1, 2, 2**16 - 2)))
    valid = {each for each in alike if identity.is_valid(each[1], identity.ATTACHMENT_BITS)}
    return sorted(drawn | valid | edges)


def attachment_of(number: int, who: Numbers) -> Raw:
    """The VPCAttachment of an interface that was given this identity."""
    vpc, mine = (identity.to_base62(each) for each in who)
    return {
        "apiVersion": resources.ATTACHMENTS.api_version,
        "kind": resources.ATTACHMENTS.kind,
        "metadata": {"name": f"web-{number}-eth0", "namespace": "shop", "uid": f"u-{number}", "resourceVersion": "1"},
        "spec": {
            "vpc": {"name": "default-home"},
            "interface": {"name": "eth0", "mode": "Netns", "addresses": ["10.1.0.7/32"], "gateways": ["10.1.0.1"]},
        },
        "status": {"vpc": vpc, "vpcAttachment": mine, "conditions": []},
    }


def call_of(attachment: Raw) -> tuple[Call, Pointer]:
    """The ADD that the runtime sends for the definition which the controller renders for the attachment."""
    status = attachment["status"]
    rendered = nad.render(VPCAttachment.model_validate(attachment), status["vpc"], status["vpcAttachment"])
    (plugin,) = json.loads(rendered["spec"]["config"])["plugins"]
    call = Call("ADD", "c-1", "eth0", "/run/netns/guest", config=plugin)
    return call, call.pointer()


def advertised(attachment: Raw) -> tuple[str, Raw]:
    """(host device, advertisement) that a node's agent makes of the call."""
    call, pointer = call_of(attachment)
    model = read_attachment(pointer, attachment)
    planned = plan_attachment(call, pointer, model, check_identity(pointer, model), 1)
    row = Row(
        container="c-1",
        ifname="eth0",
        state=State.ADDED,
        request={},
        attachment=(pointer.namespace, pointer.name),
        uid=model.uid,
        netns_inode=1,
        record=Record(attachment=planned, netns="/run/netns/guest"),
    )
    made = advertisement_object(row, ROUTER, SYSTEM, ())
    made["metadata"] |= {"uid": f"a-{model.uid}", "resourceVersion": "1"}
    return planned.device, made


@cache
def cell() -> tuple[list[tuple[Numbers, Raw, str, Raw]], Store]:
    """(identity, attachment, device, advertisement) of each attachment; and the store of the advertisements."""
    heard = Store(resources.BGP_ADVERTISEMENTS)
    heard.add_index(adverts.BY_ATTACHMENT, adverts.by_attachment)
    heard.add_index(identifiers.BY_IDENTITY, identifiers.by_identity)
    made = []
    for number, who in enumerate(identities()):
        attachment = attachment_of(number, who)
        device, advertisement = advertised(attachment)
        heard.put(advertisement)
        made.append((who, attachment, device, advertisement))
    return made, heard


def test_every_identity_finds_its_way_to_the_device_and_the_advertisement_and_back() -> None:
    """T31, R20, R32: over 10,000 identities in one cell, each leads to its own attachment and to no other."""
    made, heard = cell()
    assert len(made) >= RANDOM
    for who, raw, device, advertisement in made:
        attachment = VPCAttachment.model_validate(raw)
        assert identity.parse_host_interface(device) == who == labelled_identity(advertisement)
        assert adverts.attachment_keys(advertisement) == [attachment.key]
        assert heard.by(adverts.BY_ATTACHMENT, attachment.key) == [advertisement]
        assert heard.by(identifiers.BY_IDENTITY, identifiers.said(raw)) == [advertisement]
        assert is_about(_heard(advertisement), attachment)


def test_no_two_identities_share_a_name_and_every_name_can_be_had() -> None:
    """T31: links of at most 15 characters, object names in lower case; nothing of it is ever ambiguous."""
    made, _ = cell()
    devices = {device for _, _, device, _ in made}
    names = {advertisement["metadata"]["name"] for _, _, _, advertisement in made}
    locks = {identity.attachment_identifier_name(*who) for who, *_ in made}
    assert len(devices) == len(names) == len(locks) == len(made)
    links = devices | {identity.vrf_interface(who[0]) for who, *_ in made}
    assert len(links) == len(made) + len({who[0] for who, *_ in made})
    assert all(len(link) <= 15 for link in links)
    assert all(identity.is_object_name(name) and name == name.lower() for name in names | locks)


def test_a_definition_or_an_advertisement_never_leads_to_one_whose_texts_resemble_its_own() -> None:
    """T31, R32: neither the agent nor the controller takes the one for the other, whichever object names which."""
    made, _ = cell()
    alike = dict(_alike())
    of = {who: raw for who, raw, *_ in made}
    assert len(alike) > 300
    for who, others in alike.items():
        (_, pointer), (_, advertisement) = call_of(of[who]), advertised(of[who])
        for other in others:
            stranger = VPCAttachment.model_validate(of[other])
            assert not is_about(_heard(advertisement), stranger)
            assert not is_about(_heard(_pointed_at(advertisement, stranger)), stranger)
            with pytest.raises(Refusal) as caught:
                check_identity(pointer, stranger)
            assert caught.value.reason is refusals.IDENTITY_DIFFERS


def _alike() -> Iterator[tuple[Numbers, list[Numbers]]]:
    """Each identity with those that read the same when case, or the border between VPC and attachment, is lost."""

    def blurred(who: Numbers) -> str:
        return "".join(identity.to_base62(each) for each in who).lower()

    there = sorted(identities(), key=blurred)
    for _, group in itertools.groupby(there, key=blurred):
        members = list(group)
        for who in members:
            yield from [(who, [other for other in members if other != who])] if len(members) > 1 else ()


def _pointed_at(advertisement: Raw, attachment: VPCAttachment) -> Raw:
    """The advertisement with a reference to another attachment, and its own labels."""
    reference = {"namespace": attachment.namespace, "name": attachment.name, "uid": attachment.uid}
    return {**advertisement, "spec": {**advertisement["spec"], "attachmentRef": reference}}


def _heard(advertisement: Raw) -> Heard:
    return Heard(BGPAdvertisement.model_validate(advertisement), "n1", node_exists=True)
