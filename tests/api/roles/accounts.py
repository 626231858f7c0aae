"""Accounts with a client certificate of their own, and what an API server lets them do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from tests.control_plane import ControlPlane

RULES_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


@asynccontextmanager
async def acting_as(control_plane: ControlPlane, user: str, plane: str = "cell") -> AsyncIterator[Client]:
    """A client of that control plane as `user`, who is in no group."""
    kubeconfig = control_plane.cluster.kubeconfig_for(user, plane=plane)
    client = await Client.connect(str(kubeconfig), user_agent="netclaim-tests")
    try:
        yield client
    finally:
        await client.close()


def user_subject(user: str) -> Raw:
    """The user as a binding names it."""
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}


def role_ref(kind: str, name: str) -> Raw:
    """The role as a binding names it."""
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


async def granted(client: Client, namespace: str) -> set[tuple[str, str, str]]:
    """(verb, group, resource) of all that this account may do in the namespace, but for asking about itself."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    reply: Raw = await client.request("POST", RULES_REVIEW, body=review)
    return {
        (verb, group, resource)
        for rule in reply["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if group not in ("authorization.k8s.io", "authentication.k8s.io")
    }
