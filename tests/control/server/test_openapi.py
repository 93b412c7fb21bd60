"""What the API says of itself is what it does: no request, however odd, finds a 500 or a status that isn't declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import status_code_conformance

from gpulayer.control.server.http import ROUTES
from tests.control.given import a_command
from tests.control.server.asked import Asked

ROLES = ("admin", "user")
OPERATIONS = [
    (method, route.path)
    for each in ROUTES
    for route in each.router.routes
    if isinstance(route, APIRoute)
    for method in route.methods
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    made = Asked(Path(tmp_path_factory.mktemp("plane")))
    made.plane.submit(a_command(placement={"target": "remote"}, on_unschedulable="queue"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def schema(asked: Asked) -> Any:
    return schemathesis.openapi.from_dict(asked.one("GET", "/v1/openapi.json").json())


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_finds_a_fault(asked: Asked, schema: Any, method: str, path: str) -> None:
    @given(case=schema[path][method].as_strategy())
    @settings(max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def story(case: schemathesis.Case) -> None:
        for role in ROLES:
            answer = case.call(app=asked.app, headers={"Authorization": f"Bearer {asked.token(role)}"})
            case.validate_response(answer, checks=[not_a_server_error, status_code_conformance])

    story()
