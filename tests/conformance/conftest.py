# SPDX-License-Identifier: Apache-2.0
"""The server under test comes from the fixtures of tests/integration; each test gets a namespace of its own in it."""

import importlib.util
import itertools
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

spec = importlib.util.spec_from_file_location("integration_fixtures", os.path.join(HERE, "..", "integration", "conftest.py"))
integration = importlib.util.module_from_spec(spec)
spec.loader.exec_module(integration)
cay = integration.cay

from kit import Space  # noqa: E402

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(cay):
    """Whatever speaks the API: api(), watch() and wait() of cay_local.Cay are all that is used of it."""
    return cay


@pytest.fixture
def ns(server):
    space = Space(server, f"t{next(numbers)}")
    server.api("POST", "/api/v1/namespaces", {"metadata": {"name": space.name}})
    yield space
    server.api("DELETE", f"/api/v1/namespaces/{space.name}")
