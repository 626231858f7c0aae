"""The wire form of an admission review: read, and answered. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

import orjson

from netclaim.api import resources
from netclaim.api.meta import Raw
from webhook.inject import Admission
from webhook.refusals import Refusal

API_VERSION: Final = "admission.k8s.io/v1"


class MalformedReviewError(ValueError):
    """A body that is not a review that we can answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """The part of an admission request that is decided on."""

    uid: str
    namespace: str
    pod: Raw


def read(body: bytes) -> Request:
    """The request of a review.

    Raises:
        MalformedReviewError: not JSON, not an AdmissionReview of our version, or not the creation of a Pod.
    """
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedReviewError(f"the body is not JSON: {error}") from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise MalformedReviewError("the body is not an AdmissionReview")
    if review.get("apiVersion") != API_VERSION:
        raise MalformedReviewError(f"AdmissionReview {review.get('apiVersion')} is not served, {API_VERSION} is")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise MalformedReviewError("the review has no request with a uid")
    if request.get("operation") != "CREATE" or (request.get("kind") or {}).get("kind") != resources.PODS.kind:
        raise MalformedReviewError("the request is not the creation of a Pod")
    return Request(request["uid"], _text(request, "namespace"), _pod(request))


def _text(request: Raw, name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedReviewError(f"the request has no {name}")
    return value


def _pod(request: Raw) -> Raw:
    """The Pod, once the parts that are read or patched have their shape."""
    pod = request.get("object")
    if not isinstance(pod, dict) or not isinstance(pod.get("metadata"), dict) or not isinstance(pod.get("spec"), dict):
        raise MalformedReviewError("the request holds no Pod with metadata and spec")
    annotations = pod["metadata"].get("annotations") or {}
    if not isinstance(annotations, dict) or not all(isinstance(value, str) for value in annotations.values()):
        raise MalformedReviewError("the Pod's annotations are not texts by name")
    return pod


def answer(uid: str, verdict: Admission | Refusal) -> bytes:
    """The review that is sent back."""
    response: Raw = {"uid": uid, "allowed": isinstance(verdict, Admission)}
    if isinstance(verdict, Refusal):
        response["status"] = _status(verdict)
    elif verdict.patch:
        patch = base64.b64encode(orjson.dumps(verdict.patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def _status(refusal: Refusal) -> Raw:
    """The Status that the API server hands to its client: the cause is for programs, the message for people."""
    cause = {"reason": refusal.reason, "message": refusal.detail, "field": refusal.field}
    return {
        "metadata": {},
        "status": "Failure",
        "code": refusal.code,
        "reason": "ServiceUnavailable" if refusal.code == 503 else "Forbidden",
        "message": refusal.message,
        "details": {"kind": "pods", "causes": [{name: value for name, value in cause.items() if value}]},
    }
