# SPDX-License-Identifier: Apache-2.0
"""The server under test comes from the fixtures of tests/integration."""

import importlib.util
import os

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("integration_fixtures", os.path.join(HERE, "..", "integration", "conftest.py"))
integration = importlib.util.module_from_spec(spec)
spec.loader.exec_module(integration)
cay = integration.cay
