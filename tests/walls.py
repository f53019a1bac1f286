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
    Wall("impersonation", "integration/test_identity.py::test_impersonation_is_refused_to_the_administrator_too"),
    Wall("anonymous-rights", "integration/test_identity.py::test_nobody_without_a_credential_reads_an_object"),
    Wall("account-rights", "integration/test_identity.py::test_an_account_has_no_rights_until_it_is_given_some"),
    Wall("token-expiry", "integration/test_identity.py::test_an_expired_token_is_worth_nothing"),
    Wall("token-binding", "integration/test_identity.py::test_a_bound_token_ends_with_its_pod"),
    Wall("token-mint", "integration/test_identity.py::test_a_token_cannot_get_a_better_one"),
    Wall("pod-allow-list", "integration/test_node_pods.py::test_what_the_node_does_not_do_is_refused_by_its_path[hostusers--]"),
)
