"""Claims that IPAM cannot serve yet: what they say, and what serves them later."""

from netclaim.api import ipam as api
from netclaim.api import resources
from netclaim.kube.client import Client
from tests.api.ipam.stack import all_bound, bound, claim, get, make, make_pool, refused, release, running


async def test_a_claim_in_an_exhausted_pool_says_so_and_the_oldest_is_served_when_a_block_is_freed(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R12, T24: pool, class, family and used/total are named; woken within a second, oldest first."""
    await make_pool(ipam, home, "192.0.2.0/31")
    async with running(kubeconfig):
        await make(ipam, claim(home, "a", class_name="few"), claim(home, "b", class_name="few"))
        await all_bound(ipam, home, 2)
        for name in ("late-1", "late-2"):
            await make(ipam, claim(home, name, class_name="few"))
            message = await refused(ipam, home, name, api.REASON_POOL_EXHAUSTED)
            for part in (f"{home}/few", "class few", "IPv4", "2/2"):
                assert part in message
        # Another class of the project is not held up.
        await make(ipam, claim(home, "other", class_name="public-unicast-ipv4"))
        await bound(ipam, home, "other")
        freed = (await bound(ipam, home, "a"))["cidr"]
        await release(ipam, home, ["a"])
        status = await bound(ipam, home, "late-1", timeout=6)
        assert status["cidr"] == freed
        assert not [entry for entry in status["conditions"] if entry["status"] == "False"]
        await refused(ipam, home, "late-2", api.REASON_POOL_EXHAUSTED)


async def test_a_pool_that_grows_serves_those_who_wait(ipam: Client, home: str, kubeconfig: str) -> None:
    """T30: grow under load; the claim binds by itself once the cause is gone, and a shrink is refused."""
    await make_pool(ipam, home, "192.0.2.0/31")
    async with running(kubeconfig):
        await make(ipam, *(claim(home, f"c{number}", class_name="few") for number in range(4)))
        await all_bound(ipam, home, 2)
        grown = [{"op": "replace", "path": "/spec/cidr", "value": "192.0.2.0/30"}]
        await ipam.json_patch(resources.IP_POOLS, home, "few", grown)
        assert len(set((await all_bound(ipam, home, 4, timeout=15)).values())) == 4
        pool = await ipam.get(resources.IP_POOLS, home, "few")
        assert pool["status"]["cidr"] == "192.0.2.0/30"


async def test_an_exclusion_that_is_lifted_serves_those_who_wait(ipam: Client, home: str, kubeconfig: str) -> None:
    """Excluded addresses are never handed out; lifting the exclusion wakes the waiters."""
    await make_pool(ipam, home, "192.0.2.0/30", excluded=["192.0.2.0/31"], reservations={"trailing": 1})
    async with running(kubeconfig):
        await make(ipam, claim(home, "one", class_name="few"))
        assert (await bound(ipam, home, "one"))["cidr"] == "192.0.2.2/32"
        await make(ipam, claim(home, "two", class_name="few"))
        await refused(ipam, home, "two", api.REASON_POOL_EXHAUSTED)
        lifted = [{"op": "replace", "path": "/spec/excluded", "value": ["192.0.2.0/32"]}]
        await ipam.json_patch(resources.IP_POOLS, home, "few", lifted)
        assert (await bound(ipam, home, "two", timeout=10))["cidr"] == "192.0.2.1/32"


async def test_a_claim_is_bound_once_its_class_or_pool_or_default_exists(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R12: ClassNotFound, NoOfferingPool, NoDefaultClass are each left by the event that cures them."""
    async with running(kubeconfig):
        await make(ipam, claim(home, "early", class_name="few"))
        assert "few" in await refused(ipam, home, "early", api.REASON_CLASS_NOT_FOUND)
        spec = {"ipFamily": "IPv4", "prefixLength": 32}
        await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "few", "namespace": home}, "spec": spec})
        await refused(ipam, home, "early", api.REASON_NO_OFFERING_POOL)
        pool = {"cidr": "192.0.2.0/29", "classNames": ["few"]}
        await ipam.create(resources.IP_POOLS, {"metadata": {"name": "few", "namespace": home}, "spec": pool})
        await bound(ipam, home, "early", timeout=10)
        annotated = {
            "metadata": {"name": "few", "namespace": home, "annotations": {api.DEFAULT_CLASS_ANNOTATION: "true"}}
        }
        await ipam.apply(resources.IP_CLASSES, {**annotated, "spec": spec}, manager="operator")
        await make(ipam, claim(home, "family", family="IPv4"))
        message = await refused(ipam, home, "family", api.REASON_NO_DEFAULT_CLASS)
        assert "endpoint-ipv4" in message
        assert "few" in message
        await ipam.json_patch(
            resources.IP_CLASSES, home, "endpoint-ipv4", [{"op": "remove", "path": "/metadata/annotations"}]
        )
        assert (await bound(ipam, home, "family", timeout=10))["poolRef"]["name"] == "few"


async def test_a_scope_role_that_is_missing_is_refused_by_name(ipam: Client, home: str, kubeconfig: str) -> None:
    """A missing role is refused, never widened; all of them are named."""
    async with running(kubeconfig):
        await make(ipam, claim(home, "nowhere", family="IPv4", scope={}))
        message = await refused(ipam, home, "nowhere", api.REASON_SCOPE_ROLES_MISSING)
        assert "network, location" in message
        assert (await get(ipam, home, "nowhere"))["status"]["phase"] == api.PHASE_FAILED
