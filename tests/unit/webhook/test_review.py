"""The wire form of admission reviews (R33): malformed ones are told apart, answers say what the API server needs."""

import base64
import json
from typing import Any

import pytest

from webhook import refusals, review
from webhook.inject import Admission
from webhook.review import MalformedReviewError

POD = {"metadata": {"name": "web-0"}, "spec": {}}


def body(**request: Any) -> bytes:
    asked = {"uid": "r-1", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "shop", "object": POD}
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**asked, **request}}
    ).encode()


def test_a_review_is_read() -> None:
    assert review.read(body()) == review.Request("r-1", "shop", POD)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "not an AdmissionReview"),
        (b'{"kind":"Pod"}', "not an AdmissionReview"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}', "v1beta1 is not served"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "no request"),
        (body(uid=7), "no request with a uid"),
        (body(operation="UPDATE"), "not the creation of a Pod"),
        (body(kind={"kind": "Service"}), "not the creation of a Pod"),
        (body(namespace=""), "no namespace"),
        (body(object=None), "no Pod"),
        (body(object={"metadata": {}, "spec": []}), "no Pod"),
        (body(object={"metadata": {"annotations": {"a": 1}}, "spec": {}}), "annotations"),
    ],
)
def test_a_malformed_review_is_named(text: bytes, why: str) -> None:
    """R33: answered, not crashed on."""
    with pytest.raises(MalformedReviewError, match=why):
        review.read(text)


def test_an_admission_carries_its_patch() -> None:
    patch = ({"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}},)
    response = json.loads(review.answer("r-1", Admission(patch)))["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("r-1", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == list(patch)


def test_an_admission_without_changes_carries_no_patch() -> None:
    assert json.loads(review.answer("r-1", Admission(())))["response"] == {"uid": "r-1", "allowed": True}


@pytest.mark.parametrize(
    ("reason", "code", "status_reason"),
    [(refusals.HOST_NETWORK, 403, "Forbidden"), (refusals.REVIEW_FAILED, 503, "ServiceUnavailable")],
)
def test_a_refusal_carries_code_message_and_a_cause_for_programs(reason: str, code: int, status_reason: str) -> None:
    refusal = refusals.refuse(reason, "shop/web-0", field="spec.x", label="l", why="w")
    response = json.loads(review.answer("r-1", refusal))["response"]
    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"]) == (code, status_reason)
    assert response["status"]["message"].startswith("Pod shop/web-0: ")
    (cause,) = response["status"]["details"]["causes"]
    assert (cause["reason"], cause["field"]) == (reason, "spec.x")
