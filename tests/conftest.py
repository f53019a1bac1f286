# SPDX-License-Identifier: Apache-2.0
"""What all pytest suites share."""

import os

import pytest

# kubectl before 1.34 may drop output and exit status that arrive over a WebSocket before it has made its streams
# (kubernetes/kubernetes#131189). Over SPDY it cannot; the tests of the transports say themselves which they want.
os.environ.setdefault("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")


def pytest_addoption(parser):
    parser.addoption("--skip-long", action="store_true", help="skip the tests marked long, and say so")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--skip-long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: make test-long runs it"))
