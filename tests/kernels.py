# SPDX-License-Identifier: Apache-2.0
"""The versions of Linux that brought what Cay uses where it is there: before, it is missing, and afterwards it must not be.

Distributions may carry a feature back; those that the tests run on do not.
"""

import os
import re

SINCE = {"landlock": (6, 7), "feature-overlay-append": (6, 7), "feature-idmap-tmpfs": (6, 3), "feature-peer-pidfd": (6, 5)}
KERNEL = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


def too_old_for(check):
    return KERNEL < SINCE.get(check, (0, 0))


def lacks(feature):
    """Whether this kernel does not have a feature of src/node/host/features.h, by its name there."""
    return too_old_for(f"feature-{feature}")
