"""Identifiers: what is taken, what a holder has, and when a value is free again (R32, T31)."""

import random
from typing import Any

import pytest

from netclaim import identity
from netclaim.api.cloud import Identifier
from netclaim.api.resources import IDENTIFIERS
from netclaim.kube.store import Store
from vpc_controller import identifiers
from vpc_controller.identifiers import (
    Draw,
    Holder,
    Seen,
    Taken,
    chosen,
    held_attachment,
    held_vpc,
    is_free,
    labelled,
    value_of,
)

CONTEXT = Holder("NetworkContext", "shop", "default-home", "u-context")
INTERFACE = Holder("NetworkInterface", "shop", "web-0-eth0", "u-interface")


def store_of(*draws: tuple[Draw, int]) -> Store:
    store = Store(IDENTIFIERS)
    store.add_index(identifiers.BY_HOLDER, identifiers.by_holder)
    store.add_index(identifiers.BY_VPC, identifiers.by_vpc)
    for number, (draw, value) in enumerate(draws):
        raw = draw.render(value, "netclaim-system")
        raw["metadata"] |= {"uid": f"id-{number}", "resourceVersion": "1"}
        store.put(raw)
    return store


def test_the_name_is_the_value_in_lower_case_hex_and_the_labels_carry_it_in_base62() -> None:
    """R32: creating the object is drawing the value; no name ever holds base62."""
    vpc = Draw(CONTEXT).render(1234, "netclaim-system")
    assert vpc["metadata"] == {
        "name": "vpc-4d2",
        "namespace": "netclaim-system",
        "labels": {"cloud.datumapis.com/vpc": "jU"},
    }
    attachment = Draw(INTERFACE, vpc=1234).render(72, "netclaim-system")
    assert attachment["metadata"]["name"] == "att-4d2-48"
    assert attachment["metadata"]["labels"] == {
        "cloud.datumapis.com/vpc": "jU",
        "cloud.datumapis.com/vpc-attachment": "1a",
    }
    assert Identifier.model_validate(attachment).spec.holder.uid == "u-interface"


def test_a_holder_finds_its_identifiers_and_only_its_own() -> None:
    other = Holder("NetworkInterface", "shop", "web-1-eth0", "u-other")
    store = store_of(
        (Draw(CONTEXT), 1234),
        (Draw(INTERFACE, vpc=1234), 72),
        (Draw(INTERFACE, vpc=35), 9),
        (Draw(other, vpc=1234), 73),
    )
    assert held_vpc(store, "u-context") == [1234]
    assert held_attachment(store, "u-interface", 1234) == [72]
    assert held_attachment(store, "u-other", 1234) == [73]
    assert held_attachment(store, "u-nobody", 1234) == []
    assert held_vpc(store, "u-interface") == []


def test_texts_that_resemble_each_other_are_different_vpcs() -> None:
    """T31: base62 knows case; `a` and `A` are the VPCs 10 and 36."""
    store = store_of((Draw(INTERFACE, vpc=10), 1), (Draw(INTERFACE, vpc=36), 2))
    assert held_attachment(store, "u-interface", 10) == [1]
    assert held_attachment(store, "u-interface", 36) == [2]


@pytest.mark.parametrize(
    ("held", "recorded", "wanted"), [([], None, None), ([], 5, None), ([3, 5], 5, 5), ([3, 5], 7, 3), ([3, 5], None, 3)]
)
def test_of_two_identifiers_the_one_in_use_counts(held: list[int], recorded: int | None, wanted: int | None) -> None:
    """Two leaders that overlapped can leave a holder with two: all of them must choose the same one."""
    assert chosen(held, recorded) == wanted


@pytest.mark.parametrize(
    ("text", "bits", "value"),
    [
        ("jU", identity.VPC_BITS, 1234),
        ("", identity.VPC_BITS, None),
        ("0", identity.VPC_BITS, None),
        ("1hVwxnaA7", identity.VPC_BITS, None),
        ("h31", identity.ATTACHMENT_BITS, None),
        ("-", identity.ATTACHMENT_BITS, None),
        ("h30", identity.ATTACHMENT_BITS, 65534),
    ],
)
def test_a_text_that_is_no_identifier_has_no_value(text: str, bits: int, value: int | None) -> None:
    """T31: reserved values and foreign texts are never taken for an identity."""
    assert value_of(text, bits) == value


@pytest.mark.parametrize(
    ("holder_uid", "superseded", "user", "free"),
    [
        ("u-interface", False, None, False),
        ("u-interface", True, None, True),
        ("u-interface", True, "3e-41", False),
        ("u-later", False, None, True),
        ("u-later", False, "3e-41", False),
        (None, False, None, True),
        (None, False, "3e-41", False),
    ],
)
def test_an_identifier_is_free_when_neither_its_holder_nor_an_advertisement_is_left(
    holder_uid: str | None, superseded: bool, user: str | None, free: bool
) -> None:
    """R32: a freed value is not given out again while its advertisement still exists."""
    identifier = Identifier.model_validate(Draw(INTERFACE, vpc=62).render(65, "netclaim-system"))
    holder = {"metadata": {"name": "web-0-eth0", "uid": holder_uid}} if holder_uid else None
    assert is_free(Seen(identifier, holder, superseded, user)) is free


def test_what_is_taken_follows_every_change_of_the_stores() -> None:
    """T31: a value is taken while an Identifier, an advertisement or a status says it, and free when none does."""
    chance = random.Random(16)
    stores = [Store(IDENTIFIERS) for _ in range(3)]
    stores[0].put(_labelled("first", 1, 7, 1))
    taken = Taken()
    for store in stores:
        taken.follow(store, labelled)
    for version in range(2, 3000):
        store, name = chance.choice(stores), f"o-{chance.randrange(40)}"
        if chance.random() < 0.4:
            store.remove(("netclaim-system", name))
        else:
            store.put(_labelled(name, chance.choice((1, 36, 62)), chance.randrange(1, 9), version))
    pairs = [labelled(raw) for store in stores for raw in store.all()]
    for vpc in (1, 36, 62):
        text = identity.to_base62(vpc)
        wanted = {identity.from_base62(mine) for owner, mine in pairs if owner == text}
        assert list(taken.values(vpc)) == sorted(wanted)
    assert list(taken.values(None)) == sorted({identity.from_base62(owner) for owner, _ in pairs})


def _labelled(name: str, vpc: int, attachment: int, version: int) -> dict[str, Any]:
    raw = Draw(INTERFACE, vpc=vpc).render(attachment, "netclaim-system")
    return raw | {"metadata": raw["metadata"] | {"name": name, "uid": name, "resourceVersion": str(version)}}


def test_a_space_that_is_full_but_for_one_value_gives_that_one_at_once() -> None:
    """T31: 99.9 % of 16 bits and more; the value is taken from the free ones, not found by retrying."""
    taken = Taken()
    store = Store(IDENTIFIERS)
    taken.follow(store, labelled)
    for value in range(1, 65535):
        if value != 4711:
            store.put(_labelled(f"o-{value}", 62, value, value))
    assert identity.draw(identity.ATTACHMENT_BITS, taken.values(62), lambda below: below - 1) == 4711
    store.put(_labelled("o-4711", 62, 4711, 70000))
    assert identity.draw(identity.ATTACHMENT_BITS, taken.values(62), lambda below: below - 1) is None
