"""What the charts render, with default and with every optional value."""

import json

import pytest
import yaml

from dev import accounts
from nso.settings import CONTROLLERS, Settings
from tests.helm.helm import CHARTS, NAMES, NAMESPACE, REQUIRED, ROOT, WATCHED, Helm, Raw, containers, of_kind
from tests.helm.helm import pod_templates as pods_of
from webhook import manifests

OPTIONS: dict[str, list[Raw]] = {
    "crds": [{"networkAttachmentDefinition": {"enabled": True}, "labels": {"a": "b"}, "annotations": {"c": "d"}}],
    "nso": [
        {"monitoring": WATCHED, "networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]}},
        {"controllers": ["ipam"], "location": "", "kubeconfigSecret": {"name": "ipam"}},
        {"controllers": ["networks", "claims", "compute"], "ipamKubeconfigSecret": {"name": "ipam", "key": "config"}},
        {"deployment": {"enabled": False}, "cells": ["us-central-1", "europe-west-1"]},
        {"podProvider": False, "attachmentMode": "Hypervisor", "extraArgs": ["--pool-linger=60"], "logLevel": "debug"},
        {"replicas": 1, "podDisruptionBudget": {"enabled": False}, "rbac": {"create": False}},
        {"serviceAccount": {"create": False, "name": "mine"}, "rbac": {"aggregate": False}},
        {
            "imagePullSecrets": [{"name": "registry"}],
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "podAnnotations": {"a": "b"},
            "podLabels": {"c": "d"},
            "kubernetesService": {"host": "172.31.0.1", "port": 6443},
            "image": {"tag": "v9", "pullPolicy": "Never"},
            "fullnameOverride": "other",
        },
    ],
    "vpc-controller": [
        {"monitoring": WATCHED, "networkPolicy": {"enabled": True}},
        {"attachmentMode": "Hypervisor", "replicas": 1, "webhook": {"replicas": 3, "hostNetwork": True, "port": 9999}},
        {"webhook": {"agentNodeSelector": {"a": "b", "c": "d"}, "extraArgs": ["--dns-names=x"]}},
        {"serviceAccount": {"annotations": {"a": "b"}}, "podDisruptionBudget": {"enabled": False}},
        {"imagePullSecrets": [{"name": "r"}], "tolerations": [{"operator": "Exists"}], "podLabels": {"c": "d"}},
        {
            "kubernetesService": {"host": "172.31.0.1", "port": 6443},
            "podAnnotations": {"a": "b"},
            "affinity": {"x": {}},
        },
    ],
    "node-agent": [
        {"monitoring": WATCHED},
        {"startupTaint": {"enabled": True}},
        {"removal": {"enabled": True}},
        {"routing": "rules", "extraArgs": ["--sweep-interval=5"], "metricsPort": 9999},
        {"admissionPolicies": {"enabled": False}, "rbac": {"create": False}, "serviceAccount": {"create": False}},
        {"kubernetesService": {"host": "172.31.0.1", "port": 6443}, "paths": {"cniBin": "/usr/libexec/cni"}},
        {"imagePullSecrets": [{"name": "r"}], "podAnnotations": {"a": "b"}, "podLabels": {"c": "d"}},
        {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}, "nodeSelector": {"netclaim": "yes"}},
    ],
}
EVERY = [(chart, values) for chart in NAMES for values in ({}, *OPTIONS[chart])]


@pytest.mark.parametrize("chart", NAMES)
def test_helm_lint_finds_nothing(helm: Helm, chart: str) -> None:
    """R36."""
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHARTS / chart), values=REQUIRED[chart]).stdout


@pytest.mark.parametrize(("chart", "values"), EVERY)
def test_a_chart_renders_with_default_and_with_every_optional_value(helm: Helm, chart: str, values: Raw) -> None:
    """R36: each object is complete, in the release's namespace or of the whole cluster, and there once."""
    objects = helm.template(chart, values)
    keys = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(keys) == len(set(keys)) > 0
    for one in objects:
        assert one["metadata"].get("namespace", NAMESPACE) == NAMESPACE
    for name, pod in pods_of(objects).items():
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in containers(pod):
            mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounted <= volumes, name
            assert container["resources"]["limits"]["memory"], name


@pytest.mark.parametrize(
    ("chart", "values", "message"),
    [
        ("nso", {"location": ""}, "location is required"),
        ("vpc-controller", {"attachmentMode": ""}, "attachmentMode is required"),
        ("vpc-controller", {"attachmentMode": "netns"}, "attachmentMode"),
        ("node-agent", {"underlayInterface": ""}, "underlayInterface is required"),
        ("node-agent", {"srv6LocatorBlock": ""}, "srv6LocatorBlock is required"),
        ("node-agent", {"srv6LocatorBlock": "fd5f::/48"}, "srv6LocatorBlock"),
        ("nso", {"controllers": ["claim"]}, "controllers"),
        ("nso", {"replica": 3}, "replica"),
        ("crds", {"nad": True}, "nad"),
    ],
)
def test_a_wrong_or_missing_value_is_named(helm: Helm, chart: str, values: Raw, message: str) -> None:
    """R30 for the chart: no default where a default would be wrong; values.schema.json refuses what nobody reads."""
    assert message in helm.refusal(chart, values)


def test_the_chart_installs_every_api_type_as_generated_and_keeps_it(helm: Helm) -> None:
    """T29: a chart's crds/ folder is never upgraded, so they are templates; uninstalling must not delete objects."""
    generated = {
        document["metadata"]["name"]: document
        for file in (ROOT / "crds").glob("*.yaml")
        for document in yaml.safe_load_all(file.read_text())
    }
    nad = "network-attachment-definitions.k8s.cni.cncf.io"
    rendered = of_kind(
        helm.template("crds", {"networkAttachmentDefinition": {"enabled": True}}), "CustomResourceDefinition"
    )
    assert rendered.keys() == generated.keys()
    assert helm_without(rendered, nad) == of_kind(helm.template("crds"), "CustomResourceDefinition")
    for name, crd in rendered.items():
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert crd["spec"] == generated[name]["spec"]


def helm_without(objects: dict[str, Raw], name: str) -> dict[str, Raw]:
    return {key: value for key, value in objects.items() if key != name}


def test_the_admission_objects_are_those_that_the_webhook_describes(helm: Helm) -> None:
    """The chart and the local cluster install the same configuration and policy."""
    objects = helm.template("vpc-controller")
    wanted = manifests.manifests(service=manifests.Service(NAMESPACE, "netclaim-webhook"))
    for one in wanted:
        found = of_kind(objects, one["kind"])[one["metadata"]["name"]]
        field = "webhooks" if "webhooks" in one else "spec"
        assert found[field] == one[field]


@pytest.mark.parametrize(
    ("account", "chart", "values", "name"),
    [
        ("nso-ipam", "nso", {"controllers": ["ipam"], "location": ""}, "nso"),
        (
            "nso",
            "nso",
            {"controllers": ["networks", "claims", "compute"], "ipamKubeconfigSecret": {"name": "ipam"}},
            "nso",
        ),
        ("nso-cell", "nso", {"controllers": ["ipam"], "location": "", "cells": ["a"]}, "nso-cell-a"),
        ("vpc-controller", "vpc-controller", {}, "vpc-controller"),
        ("netclaim-webhook", "vpc-controller", {}, "netclaim-webhook"),
        ("node-agent", "node-agent", {}, "node-agent"),
    ],
)
def test_programs_of_the_local_cluster_have_the_rights_that_the_charts_give(
    helm: Helm, account: str, chart: str, values: Raw, name: str
) -> None:
    """R36: so what the e2e tier's audit log shows of them is true of an installation."""
    objects = helm.template(chart, values)
    local = next(one for one in accounts.ACCOUNTS if one.name == account)
    made = list(accounts.manifests(local, NAMESPACE))
    for kind in ("ClusterRole", "Role"):
        given = [rule for one in made if one["kind"] == kind for rule in one["rules"]]
        bound = bound_to(objects, name, kind)
        assert canonical(bound) == canonical(given), kind


@pytest.mark.parametrize(
    "controllers", [["ipam"], ["claims", "networks"], ["networks", "claims", "compute"], ["ipam", *CONTROLLERS[:3]]]
)
def test_an_elected_program_may_write_its_own_lease_and_no_other(helm: Helm, controllers: list[str]) -> None:
    """R36: another program's Lease in the namespace is not its to take; a name that is to be made cannot be limited."""
    objects = helm.template("nso", {"controllers": controllers})
    wanted = Settings(controllers=tuple(controllers), location="us-central-1").lease
    leases = [rule for rule in bound_to(objects, "nso", "Role") if "leases" in rule["resources"]]
    assert {tuple(rule["verbs"]): rule.get("resourceNames") for rule in leases} == {
        ("create",): None,
        ("get", "update"): [wanted],
    }


def canonical(rules: list[Raw]) -> list[str]:
    """The rules in an order, and with their fields in an order."""
    return sorted(json.dumps(rule, sort_keys=True) for rule in rules)


def bound_to(objects: list[Raw], account: str, kind: str) -> list[Raw]:
    """The rules of the roles of a kind that are bound to a service account."""
    roles = of_kind(objects, kind)
    return [
        rule
        for binding in of_kind(objects, f"{kind}Binding").values()
        if any(subject["name"] == account for subject in binding["subjects"])
        for rule in roles[binding["roleRef"]["name"]]["rules"]
    ]


def test_the_local_cluster_has_the_policies_that_the_chart_puts_into_force(helm: Helm) -> None:
    objects = helm.template("node-agent")
    for one in accounts.policies(NAMESPACE):
        assert of_kind(objects, one["kind"])[one["metadata"]["name"]]["spec"] == one["spec"]


def test_no_tenant_gets_to_write_what_is_the_data_planes(helm: Helm) -> None:
    """vpc.md: nothing is aggregated into edit that writes cloud or network kinds; wildcards and escalation nowhere."""
    rules_of = {
        (chart, name): (role, role["rules"])
        for chart, values in EVERY
        for kind in ("ClusterRole", "Role")
        for name, role in of_kind(helm.template(chart, values), kind).items()
    }
    assert any("aggregate-to-edit" in label for role, _ in rules_of.values() for label in role["metadata"]["labels"])
    for (_, name), (role, rules) in rules_of.items():
        labels = role["metadata"].get("labels", {})
        for rule in rules:
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]), name
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), name
            if any("aggregate-to" in label for label in labels):
                written = set(rule["verbs"]) - {"get", "list", "watch"}
                groups = {"cloud.datumapis.com", "network.datumapis.com", "k8s.cni.cncf.io"} & set(rule["apiGroups"])
                assert not (written and groups), name
                assert not any(resource.endswith("/status") for resource in rule["resources"] if written), name


@pytest.mark.parametrize("chart", ["nso", "vpc-controller"])
def test_every_pod_but_the_agents_fits_the_restricted_profile(helm: Helm, chart: str) -> None:
    """Issued by Pod Security Admission in a namespace that enforces `restricted`; here field by field."""
    for values in ({}, *OPTIONS[chart]):
        for name, pod in pods_of(helm.template(chart, values)).items():
            assert pod["securityContext"]["runAsNonRoot"] is True, name
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            for container in containers(pod):
                held = container["securityContext"]
                assert held == {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                }
            assert not any("hostPath" in volume for volume in pod["volumes"]), name


@pytest.mark.parametrize("values", [{}, *OPTIONS["node-agent"]])
def test_the_agent_has_two_capabilities_and_outlives_a_node_short_of_memory(helm: Helm, values: Raw) -> None:
    """multus-cni#1160: an init container without limits makes the Pod Burstable, and the node's first victim."""
    pod = pods_of(helm.template("node-agent", values))["node-agent"]
    assert pod["priorityClassName"] == "system-node-critical"
    for container in containers(pod):
        resources = container["resources"]
        assert resources["requests"] == resources["limits"]
        assert {"cpu", "memory"} <= resources["limits"].keys()
        held = container["securityContext"]
        assert held["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "SYS_ADMIN"]}
        assert held["readOnlyRootFilesystem"] is True
        assert not held.get("privileged", False)
