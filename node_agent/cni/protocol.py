"""A CNI call as netclaim-cni sends it: one JSON line in, two out. Pure: bytes to values and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from node_agent.cni import refusals
from node_agent.cni.refusals import Refusal

PROTOCOL: Final = 1
"""Raised together with netclaim-cni when a message changes in a way that the other side would misread."""

VERBS: Final = ("ADD", "DEL", "CHECK", "GC", "STATUS")
LINE_LIMIT: Final = 1 << 20
"""Longest call in bytes. A prevResult of a long chain takes a few kilobytes."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the network configuration points: the VPCAttachment, and the identifiers (base62) that it must have."""

    namespace: str
    name: str
    vpc: str
    attachment: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Pod:
    """The Pod of a call, from CNI_ARGS."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Call:
    """One CNI call. ``config`` is the network configuration as it came: nothing is programmed from it."""

    verb: str
    container: str = ""
    ifname: str = ""
    netns: str = ""
    args: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """(container id, interface name): the journal's key."""
        return (self.container, self.ifname)

    @property
    def network(self) -> str:
        """Name of the network configuration; what GC goes by."""
        name = self.config.get("name")
        return name if isinstance(name, str) else ""

    @property
    def pod(self) -> Pod | None:
        """The Pod that the runtime named, None without one."""
        namespace, name = self.args.get("K8S_POD_NAMESPACE", ""), self.args.get("K8S_POD_NAME", "")
        return Pod(namespace, name, self.args.get("K8S_POD_UID", "")) if namespace and name else None

    def pointer(self) -> Pointer:
        """Where the configuration points. Raises Refusal(NO_POINTER)."""
        reference = self.config.get("attachment")
        named = reference if isinstance(reference, dict) else {}
        texts = (named.get("namespace"), named.get("name"), self.config.get("vpc"), self.config.get("vpcAttachment"))
        found = [text for text in texts if isinstance(text, str) and text]
        if len(found) != len(texts):
            raise Refusal(refusals.NO_POINTER)
        return Pointer(*found)

    def valid_attachments(self) -> frozenset[tuple[str, str]] | None:
        """(container, ifname) of `cni.dev/valid-attachments` (GC); None when the key is missing or no list."""
        listed = self.config.get("cni.dev/valid-attachments")
        if not isinstance(listed, list):
            return None
        return frozenset(
            (str(entry.get("containerID", "")), str(entry.get("ifname", "")))
            for entry in listed
            if isinstance(entry, dict)
        )


def read_call(line: bytes) -> Call:
    """The call that a line holds. Raises Refusal (UNREADABLE, PROTOCOL, UNKNOWN_VERB)."""
    try:
        sent = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Refusal(refusals.UNREADABLE, why=error) from error
    if not isinstance(sent, dict):
        raise Refusal(refusals.UNREADABLE, why="it is no JSON object")
    if sent.get("protocol") != PROTOCOL:
        raise Refusal(refusals.PROTOCOL, theirs=sent.get("protocol"), ours=PROTOCOL)
    if sent.get("verb") not in VERBS:
        raise Refusal(refusals.UNKNOWN_VERB, verb=sent.get("verb"))
    texts = {name: sent.get(name) or "" for name in ("containerID", "ifName", "netns", "args")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise Refusal(refusals.UNREADABLE, why=f"{name} is no text")
    config = sent.get("config")
    return Call(
        verb=sent["verb"],
        container=texts["containerID"],
        ifname=texts["ifName"],
        netns=texts["netns"],
        args=read_args(texts["args"]),
        config=config if isinstance(config, dict) else {},
    )


def read_args(text: str) -> dict[str, str]:
    """CNI_ARGS (`A=1;B=2`). Pairs that are none are left out: a runtime may add what it likes."""
    pairs = (entry.partition("=") for entry in text.split(";"))
    return {name.strip(): value for name, equals, value in pairs if equals and name.strip()}


def accepted() -> bytes:
    """The line that says "taken": sent at once, so that a caller can tell a busy agent from a dead one."""
    return b'{"accepted":true}\n'


def answered(result: dict[str, Any] | None) -> bytes:
    """The line that ends a call that worked."""
    return orjson.dumps({} if result is None else {"result": result}) + b"\n"


def refused(refusal: Refusal) -> bytes:
    """The line that ends a call that did not."""
    return orjson.dumps({"error": refusal.as_json()}) + b"\n"
