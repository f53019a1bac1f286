# SPDX-License-Identifier: Apache-2.0
"""Every wall around a sandbox, and the test that notices when it is down.

`tools/run-tests walls` takes each wall down, in a build made for it (src/base/wall.h), and fails if the test named here
stays green. A wall that a second one hides names it: both are taken down together, or there would be nothing to see.
"""

import typing


class Wall(typing.NamedTuple):
    name: str  # as wall_stands() asks for it
    test: str  # below tests/, as pytest names it
    hidden_by: tuple = ()  # names of walls that hide its fall


WALLS = (
)
