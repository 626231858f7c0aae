"""The API's kinds as pydantic models, one module per API group, and what belongs to them.

`crds/*.yaml` is generated from here and from nowhere else (`python -m netclaim.api`, `make crds`).
"""

from __future__ import annotations
