"""The local cluster's programs: found again by content, built from modules that the checkout holds."""

import re
from pathlib import Path

import pytest

from dev import builds
from dev.errors import ClusterError
from dev.paths import GO_MODULES
from dev.progress import PlainDisplay


def module(folder: Path, *, sums: str = "a v1 h1:x\n", source: str = "package main\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text("module m\n\nrequire example.com/a v1.2.3\n")
    (folder / "go.sum").write_text(sums)
    (folder / "main.go").write_text(source)
    return folder


def test_a_binary_is_found_again_while_its_module_is_the_same_and_not_after_a_change(tmp_path: Path) -> None:
    """spec/testing.md: binaries are keyed by content."""
    one = builds.Target("a", module(tmp_path / "one"), "example.com/a")
    same = builds.Target("a", module(tmp_path / "same"), "example.com/a")
    other_sums = builds.Target("a", module(tmp_path / "sums", sums="a v1 h1:y\n"), "example.com/a")
    other_version = builds.Target("a", one.folder, "example.com/a", (("example.com/a.version", "v2"),))
    other_package = builds.Target("a", one.folder, "example.com/a/cmd")

    assert one.key == same.key
    assert len({one.key, other_sums.key, other_version.key, other_package.key}) == 4


def test_a_program_of_the_checkout_is_built_anew_when_any_of_its_sources_changes(tmp_path: Path) -> None:
    """spec/testing.md: the CNI plugin on the nodes is the one of the checkout, never an older one."""
    folder = module(tmp_path / "own")
    before = builds.own("own", folder).key
    (folder / "pkg").mkdir()
    (folder / "pkg" / "more.go").write_text("package pkg\n")
    added = builds.own("own", folder).key
    (folder / "pkg" / "more.go").write_text("package pkg // changed\n")
    changed = builds.own("own", folder).key

    assert len({before, added, changed}) == 3


def test_given_assets_are_taken_only_when_they_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec/testing.md: KUBEBUILDER_ASSETS is taken when set and complete."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("NETCLAIM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "assets").mkdir()
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / "assets" / name).touch(mode=0o755)
    targets = [builds.etcd()]
    cached = tmp_path / "cache" / "bin" / f"etcd-{targets[0].key}"
    cached.parent.mkdir(parents=True)
    cached.touch(mode=0o755)

    incomplete = builds.ensure(targets, PlainDisplay())
    (tmp_path / "assets" / "kubectl").touch(mode=0o755)
    complete = builds.ensure(targets, PlainDisplay())

    assert incomplete == {"etcd": cached}
    assert complete == {"etcd": tmp_path / "assets" / "etcd"}


def test_a_build_that_fails_says_what_the_compiler_said_and_leaves_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec/testing.md: a binary appears in the cache by rename, finished or not at all."""
    monkeypatch.setenv("NETCLAIM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "go.mod").write_text("module broken\n\ngo 1.26.0\n")
    (folder / "main.go").write_text("package main\n\nfunc main() { undefinedFunction() }\n")

    with pytest.raises(ClusterError, match="undefined: undefinedFunction"):
        builds.ensure([builds.own("broken", folder)], PlainDisplay())

    assert list((tmp_path / "cache" / "bin").iterdir()) == []


@pytest.mark.parametrize("name", ["kubernetes", "etcd", "helm", "multus"])
def test_every_module_is_committed_with_its_sums_and_needs_the_go_that_is_looked_for(name: str) -> None:
    """spec/testing.md: go.mod and go.sum of each module are committed."""
    text = (GO_MODULES / name / "go.mod").read_text()
    go = re.search(r"^go (\d+)\.(\d+)", text, re.MULTILINE)

    assert (GO_MODULES / name / "go.sum").stat().st_size > 0
    assert go is not None
    assert (int(go.group(1)), int(go.group(2))) <= builds.GO_MINIMUM


def test_the_programs_are_stamped_with_the_version_that_their_module_requires() -> None:
    """`kubectl version` and the Node objects tell the truth about what runs."""
    version = builds.required_version(GO_MODULES / "kubernetes", "k8s.io/kubernetes")

    assert f"gitVersion={version}" in builds.kubernetes("kubelet").ldflags
    assert f"version={builds.required_version(GO_MODULES / 'multus', builds.MULTUS_MODULE)}" in builds.multus().ldflags
