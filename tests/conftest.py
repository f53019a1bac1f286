# SPDX-License-Identifier: Apache-2.0
"""What all pytest suites share."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--skip-long", action="store_true", help="skip the tests marked long, and say so")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--skip-long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: make test-long runs it"))
