"""Where credentials come from, and what a broken configuration says."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from netclaim.kube import endpoint
from netclaim.kube.errors import ConfigError


def _kubeconfig(path: Path, user: dict[str, object], **cluster: object) -> str:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


async def test_files_named_by_a_kubeconfig_are_relative_to_it(tmp_path: Path) -> None:
    """As kubectl reads it."""
    (tmp_path / "ca.crt").write_text("authority")
    (tmp_path / "token").write_text("secret\n")
    found = await endpoint.find(
        _kubeconfig(tmp_path / "config", {"tokenFile": "token"}, **{"certificate-authority": "ca.crt"})
    )
    assert found.server == "https://10.0.0.1:6443"
    assert found.ca.read() == b"authority"
    assert found.token.read() == b"secret\n"


async def test_inline_certificates_are_decoded(tmp_path: Path) -> None:
    """As kubectl reads it."""
    inline = base64.b64encode(b"PEM").decode()
    found = await endpoint.find(
        _kubeconfig(tmp_path / "config", {"client-certificate-data": inline, "client-key-data": inline})
    )
    assert (found.client_certificate.read(), found.client_key.read()) == (b"PEM", b"PEM")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not YAML"),
        ("", "holds no configuration"),
        ("current-context: gone\n", "current-context 'gone' names no context"),
        ("contexts: [{name: c, context: {cluster: k}}]\n", "context 'c' names no cluster"),
        (
            "contexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, cluster: {server: here}}]\n",
            "server 'here' is not a URL",
        ),
    ],
)
async def test_a_broken_kubeconfig_is_refused_with_its_name_and_the_reason(
    tmp_path: Path, content: str, said: str
) -> None:
    """A user knows which file to repair, and how."""
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError, match=said) as caught:
        await endpoint.find(str(path))
    assert str(path) in str(caught.value)


async def test_without_any_configuration_the_ways_to_give_one_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """T27."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="pass --kubeconfig, set KUBECONFIG, or run inside a cluster"):
        await endpoint.find(None)


async def test_in_a_cluster_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R36: each program runs under its own service account."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.setattr(endpoint, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        await endpoint.find(None)
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("authority")
    found = await endpoint.find(None)
    assert found.server == "https://[fd00::1]:6443"
    assert found.token.path == tmp_path / "token"


async def test_a_token_of_an_exec_plugin_is_fetched_and_fetched_again(tmp_path: Path) -> None:
    """T28: cloud providers' kubeconfigs work."""
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        f"echo x >> {tmp_path}/calls\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        f'"status":{{"token":"token-\'$(wc -l < {tmp_path}/calls)\'"}}}}\'\n'
    )
    plugin.chmod(0o755)
    execute = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    found = await endpoint.find(_kubeconfig(tmp_path / "config", {"exec": execute}))
    assert found.token.read() == b"token-1"
    assert found.refresh is not None
    assert await found.refresh() == "token-2"


def test_the_runtime_does_not_load_the_generated_client() -> None:
    """It costs 37 MB that a program on a node must not pay."""
    code = (
        "import sys, netclaim.kube.process, netclaim.kube.apply; "
        "sys.exit(any(name.startswith('kubernetes_asyncio') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
