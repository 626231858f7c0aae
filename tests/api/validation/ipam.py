"""Classes, pools, claims and allocations of IPAM: what their rules accept and refuse."""

from netclaim.api import resources as r
from tests.api.validation.table import OWNER, Case

KEEPS = {"parentRef": {"name": "root"}, "prefixLength": 20, "cidr": None}
CLASS_CASES = [
    Case(
        "an IPv4 block is at most 32 long",
        r.IP_CLASSES,
        {"ipFamily": "IPv4", "prefixLength": 32},
        {"ipFamily": "IPv4", "prefixLength": 33},
        "an IPv4 class hands out blocks of prefix length 32 or shorter",
    ),
    Case("a block is at most 128 long", r.IP_CLASSES, {"prefixLength": 128}, {"prefixLength": 129}, "equal to 128"),
    Case(
        "family is immutable", r.IP_CLASSES, {}, {"ipFamily": "IPv4"}, "a class keeps its", before={"prefixLength": 8}
    ),
    Case("length is immutable", r.IP_CLASSES, {}, {"prefixLength": 64}, "a class keeps its prefix length", before={}),
    Case(
        "parent is immutable",
        r.IP_CLASSES,
        {"cooldown": "5m"},
        {"parentClassName": "a"},
        "a class keeps its parent",
        before={},
    ),
    Case(
        "poolPer is immutable",
        r.IP_CLASSES,
        {"poolPer": ["network"], "strategy": "Random"},
        {"poolPer": ["network", "location"]},
        "a class keeps its poolPer roles",
        before={"poolPer": ["network"]},
    ),
    Case(
        "uniqueWithin is immutable",
        r.IP_CLASSES,
        {"uniqueWithin": ["network"], "reservations": {"leading": 1}},
        {"uniqueWithin": None},
        "a class keeps its uniqueWithin roles",
        before={"uniqueWithin": ["network"]},
    ),
    Case("roles are words", r.IP_CLASSES, {"poolPer": ["network"]}, {"poolPer": ["Net work"]}, "name a scope role"),
    Case("roles are unique", r.IP_CLASSES, {"poolPer": ["a", "b"]}, {"poolPer": ["a", "a"]}, "Duplicate value"),
    Case("cooldown is a duration", r.IP_CLASSES, {"cooldown": "1h30m"}, {"cooldown": "5"}, "write a duration"),
    Case("strategy is known", r.IP_CLASSES, {"strategy": "FirstFit"}, {"strategy": "BestFit"}, "NextFit"),
    Case(
        "reservations are not negative",
        r.IP_CLASSES,
        {"reservations": {"leading": 2, "trailing": 2}},
        {"reservations": {"leading": -1}},
        "greater than or equal to 0",
    ),
]

POOL_CASES = [
    Case("a pool has a range or a parent", r.IP_POOLS, KEEPS, {"cidr": None}, "set either cidr"),
    Case("a pool has not both", r.IP_POOLS, KEEPS, {**KEEPS, "cidr": "10.0.0.0/8"}, "set either cidr"),
    Case("a carved pool has a length", r.IP_POOLS, KEEPS, {**KEEPS, "prefixLength": None}, "set prefixLength together"),
    Case("a root pool has no length", r.IP_POOLS, {}, {"prefixLength": 20}, "set prefixLength together"),
    Case("a range has no host bits", r.IP_POOLS, {"cidr": "fd20::/36"}, {"cidr": "10.0.0.1/24"}, "without host bits"),
    Case("a range may grow", r.IP_POOLS, {"cidr": "10.0.0.0/8"}, {"cidr": "10.128.0.0/17"}, "may only grow", before={}),
    Case("a range never moves", r.IP_POOLS, {}, {"cidr": "10.129.0.0/16"}, "may only grow", before={}),
    Case("a range keeps its family", r.IP_POOLS, {}, {"cidr": "::/0"}, "may only grow", before={}),
    Case("a root stays a root", r.IP_POOLS, {}, KEEPS, "a pool stays where it was carved", before={}),
    Case(
        "a carved pool keeps its parent",
        r.IP_POOLS,
        KEEPS,
        {**KEEPS, "parentRef": {"name": "other"}},
        "a pool stays where it was carved",
        before=KEEPS,
    ),
    Case(
        "a carved pool keeps its length",
        r.IP_POOLS,
        {**KEEPS, "classNames": ["a"]},
        {**KEEPS, "prefixLength": 21},
        "a carved pool keeps its length",
        before=KEEPS,
    ),
    Case(
        "a pool keeps what it was made for",
        r.IP_POOLS,
        {**KEEPS, "madeFor": {"className": "a", "scope": {"network": {"kind": "Network", "name": "n"}}}},
        {**KEEPS, "madeFor": {"className": "a", "scope": {"network": {"kind": "Network", "name": "m"}}}},
        "a pool stays with the class and scope",
        before={**KEEPS, "madeFor": {"className": "a", "scope": {"network": {"kind": "Network", "name": "n"}}}},
    ),
    Case("classes are unique", r.IP_POOLS, {"classNames": ["a", "b"]}, {"classNames": ["a", "a"]}, "Duplicate value"),
    Case(
        "excluded are blocks",
        r.IP_POOLS,
        {"excluded": ["10.128.1.0/24"]},
        {"excluded": ["10.128.1.1/24"]},
        "without host bits",
    ),
    Case(
        "sharing is a label selector",
        r.IP_POOLS,
        {"sharedWith": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
        {"sharedWith": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        "operator",
    ),
    Case(
        "a written range is not removed",
        r.IP_POOLS,
        {"cidr": "10.128.0.0/20", "spaces": 1},
        {},
        "the range of a pool is written once",
        before={"cidr": "10.128.0.0/20"},
        part="status",
    ),
    Case(
        "a written range never moves",
        r.IP_POOLS,
        {"cidr": "10.128.0.0/16"},
        {"cidr": "10.128.16.0/20"},
        "the range of a pool is written once and may only grow",
        before={"cidr": "10.128.0.0/20"},
        part="status",
    ),
    Case(
        "what a pool gives out stays of one kind",
        r.IP_POOLS,
        {"blocks": {"prefixLength": 32, "uniqueWithin": []}, "spaces": 1},
        {"blocks": {"prefixLength": 32, "uniqueWithin": ["network"]}},
        "a pool gives out blocks of one kind",
        before={"blocks": {"prefixLength": 32, "uniqueWithin": []}},
        part="status",
    ),
    Case(
        "counts are whole numbers",
        r.IP_POOLS,
        {"capacity": dict.fromkeys(("total", "allocated", "reserved", "cooling", "available"), "2" * 39)},
        {"capacity": dict.fromkeys(("total", "allocated", "reserved", "cooling", "available"), "many")},
        "write a whole number",
        part="status",
    ),
]

SCOPE = {"network": {"kind": "Network", "namespace": "shop", "name": "default"}}
IPAM_CLAIM_CASES = [
    Case(
        "a class or a family",
        r.IP_CLAIMS,
        {"className": None, "ipFamily": "IPv6"},
        {"className": None},
        "set either className or ipFamily",
    ),
    Case("not both", r.IP_CLAIMS, {}, {"ipFamily": "IPv6"}, "set either className or ipFamily"),
    Case("class is immutable", r.IP_CLAIMS, {}, {"className": "other"}, "a claim keeps its class", before={}),
    Case(
        "family is immutable",
        r.IP_CLAIMS,
        {"className": None, "ipFamily": "IPv6"},
        {"className": None, "ipFamily": "IPv4"},
        "a claim keeps its family",
        before={"className": None, "ipFamily": "IPv6"},
    ),
    Case(
        "scope is immutable",
        r.IP_CLAIMS,
        {"scope": SCOPE},
        {"scope": {**SCOPE, "location": {"kind": "Location", "name": "here"}}},
        "a claim keeps its scope",
        before={"scope": SCOPE},
    ),
    Case("target is immutable", r.IP_CLAIMS, {}, {"target": "Range"}, "a claim keeps its target", before={}),
    Case("address is immutable", r.IP_CLAIMS, {}, {"address": "10.0.0.9"}, "a claim keeps the address", before={}),
    Case(
        "the owner may move, wholly",
        r.IP_CLAIMS,
        {"ownerRef": {**OWNER, "uid": "2"}},
        {"ownerRef": {**OWNER, "uid": ""}},
        "ownerRef.uid",
        before={"ownerRef": OWNER},
    ),
    Case(
        "address is an address or a block",
        r.IP_CLAIMS,
        {"address": "10.0.0.9"},
        {"address": "ten"},
        "write an address such as",
    ),
    Case(
        "a written block is not removed",
        r.IP_CLAIMS,
        {"cidr": "10.128.0.2/32", "phase": "Bound"},
        {"phase": "Pending"},
        "the block of a claim is written once",
        before={"cidr": "10.128.0.2/32"},
        part="status",
    ),
    Case(
        "a written block never changes",
        r.IP_CLAIMS,
        {"cidr": "10.128.0.2/32", "phase": "Bound"},
        {"cidr": "10.128.0.3/32"},
        "the block of a claim is written once",
        before={"cidr": "10.128.0.2/32"},
        part="status",
    ),
]

ALLOCATION_CASES = [
    Case("pool is immutable", r.IP_ALLOCATIONS, {}, {"poolRef": {"name": "q"}}, "stays in its pool", before={}),
    Case("block is immutable", r.IP_ALLOCATIONS, {}, {"cidr": "10.128.0.3/32"}, "keeps its block", before={}),
    Case("space is immutable", r.IP_ALLOCATIONS, {}, {"space": "x"}, "stays in its space", before={}),
    Case(
        "a held block may cool, until a time",
        r.IP_ALLOCATIONS,
        {"purpose": "Cooling", "claimRef": None, "releaseAt": "2026-01-01T00:00:00Z"},
        {"purpose": "Cooling", "claimRef": None},
        "set releaseAt",
        before={},
    ),
    Case(
        "a claim or carve names its holder",
        r.IP_ALLOCATIONS,
        {"purpose": "Reservation", "claimRef": None},
        {"purpose": "Carve", "claimRef": None},
        "set claimRef",
    ),
]

CASES = [*CLASS_CASES, *POOL_CASES, *IPAM_CLAIM_CASES, *ALLOCATION_CASES]
