# SPDX-License-Identifier: Apache-2.0
"""A real Chromium, and the server under test from the fixtures of tests/integration."""

import importlib.util
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
spec = importlib.util.spec_from_file_location("integration_fixtures", os.path.join(HERE, "..", "integration", "conftest.py"))
integration = importlib.util.module_from_spec(spec)
spec.loader.exec_module(integration)
cay, fresh, module_instance = integration.cay, integration.fresh, integration.module_instance

from page_kit import Chromium, Visitor  # noqa: E402


@pytest.fixture(scope="session")
def chromium():
    with Chromium() as c:
        yield c


@pytest.fixture
def visit(chromium):
    """Opens the page of a server as somebody; what went wrong in the browser fails the test at its end."""
    open_ones = []

    def make(server, **options):
        v = Visitor(chromium, server, **options)
        open_ones.append(v)
        return v

    yield make
    wrong = [w for v in open_ones for w in v.close()]
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def visitor(cay, visit):
    """The administrator, logged in by a link."""
    return visit(cay).log_in()
