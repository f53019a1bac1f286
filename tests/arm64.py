# SPDX-License-Identifier: Apache-2.0
"""What the unit tests for arm64 cannot do under qemu-user, and why: read by `tools/run-tests arm64`.

A test that is listed must fail; one that passes there fails the run, so that no row outlives its reason. What would never end, or would take
the other tests of its program down with it, is left out and not tried.
"""

import typing


class Row(typing.NamedTuple):
    test: str
    why: str
    before: tuple = ()  # the version of qemu that can do it
    left_out: bool = False  # not tried


def cannot(why, *tests, before=(), left_out=False):
    return tuple(Row(test, why, before, left_out) for test in tests)


# Programs that are not run: how far each came under emulation before it was ended. Where the time goes was not looked into.
SLOW = {
    "control": "too slow: 37 of 259 tests in 15 minutes",
    "identity": "too slow: 4 tests in 10 minutes",
    "node": "too slow: 20 of 221 tests in 100 seconds",
    "server": "too slow: 9 of 198 tests in 4 minutes",
}

ROWS = (
    *cannot(
        "qemu knows openat2() only from version 9.2 on",
        "a_tar_becomes_a_tree",
        "a_planted_link_stays_inside",
        "limits_of_a_layer_hold",
        "the_group_may_use_everything_in_a_volume_and_nothing_outside",
        "the_group_may_only_read_what_is_mounted_read_only",
        "a_tree_that_is_too_deep_is_refused_and_its_top_stays",
        "links_that_come_and_go_during_the_walk_lead_nowhere",
        "a_hostile_link_stays_inside_the_root",
        "a_tree_is_taken_only_where_one_was_asked_for",
        before=(9, 2)),
    *cannot(
        "qemu has no netlink sockets but for routes of its own, and before version 10 no fsopen()",
        "a_batch_of_thousands_is_answered_whole_and_tells_the_first_refusal",
        "a_network_that_anything_went_through_is_not_as_new",
        "a_network_that_the_host_sent_something_to_is_not_as_new",
        "a_network_whose_socket_is_held_elsewhere_is_not_as_new",
        "without_egress_the_filter_inside_lets_nothing_out",
        "the_filter_inside_is_open_for_peers_and_for_no_others",
        "lists_of_peers_may_overlap",
        "a_list_of_peers_that_cannot_be_read_changes_nothing",
        "the_filter_inside_stops_what_is_reserved_and_nothing_beside_it",
        "the_filter_inside_stops_what_is_reserved_of_ipv6_and_nothing_beside_it",
        "the_filter_inside_stops_ipv6_with_other_headers",
        "the_filter_inside_stops_a_foreign_source_of_either_family",
        "the_owner_of_a_connection_is_found_in_every_family",
        "a_caller_who_has_left_is_nobody_and_not_root",
        "a_caller_who_has_sent_everything_is_still_known",
        "a_caller_who_has_reset_the_connection_is_nobody",
        "the_policy_learns_who_asks",
        "members_of_the_group_are_trusted_and_their_requests_wait_for_the_lookup",
        "a_caller_may_leave_while_it_is_looked_up",
        "who_has_connected_is_told_by_header_alone",
        "no_tunnel_hides_requests_that_a_pass_does_not_permit",
        "a_namespace_leaves_node_ports_to_others_and_each_service_without_one_is_told",
        "a_namespace_leaves_connections_to_others_and_those_of_clients_that_left_end",
        "a_pod_that_does_not_take_its_connections_is_given_up",
        "a_connection_is_recorded_when_it_ends",
        "a_connection_that_leads_nowhere_or_is_cut_is_recorded_with_the_reason",
        "callers_who_may_not_go_in_do_not_fill_the_log",
    ),
    *cannot(
        "qemu does not hand the limit of a btrfs quota group to the kernel (BTRFS_IOC_QGROUP_LIMIT): the disk pool is a plain directory, in which nothing is used again",
        "the_directory_of_a_slot_is_kept_empty_and_used_again",
        "what_was_in_a_slot_does_not_count_for_the_next",
        "two_slots_never_take_the_same_directory",
    ),
    *cannot(
        "qemu answers TCP_INFO with four bytes: how long a connection has been silent is not among them",
        "a_silent_connection_makes_space_before_one_that_has_begun",
    ),
    *cannot(
        "qemu makes vfork() a fork(): a program that cannot be executed is not told to the parent",
        "what_cannot_be_started_is_an_error",
    ),
    *cannot(
        "libnftables ends the process where there is no netlink socket for it",
        "flows_that_are_led_elsewhere_now_are_forgotten_and_no_others",
        left_out=True),
    *cannot(
        "the kernel does not execute a launcher for arm64, and the test waits for it",
        "a_command_starts_exits_and_leaves_only_its_log",
        "a_command_that_is_not_there_fails_as_in_a_shell",
        "a_slot_that_cannot_build_its_root_says_why",
        "a_task_is_signalled_and_killed_and_one_never_launched_ends_too",
        "a_second_life_attaches_to_what_runs_and_sweeps_the_rest",
        "a_pod_gets_its_address_again",
        "a_slot_that_was_parked_for_another_image_has_a_whole_root",
        "a_slot_does_not_use_a_layer_that_went_away_and_came_back",
        "a_parked_slot_that_dies_is_replaced",
        "ids_and_addresses_return_only_after_the_last_process",
        "only_a_network_that_nothing_went_through_is_given_to_another",
        left_out=True),
    *cannot(
        "did not end within 25 s, and was not looked into",
        "the_writable_host_has_the_directories_of_usr_and_none_of_its_files",
        "an_image_of_the_machine_is_made_once_by_a_job_and_a_failure_says_why",
        left_out=True),
    *cannot(
        "wants 150 passes, or a memory of a millisecond, in less time than emulation takes",
        "queue_drains_in_one_turn_what_passes_add",
        "a_memory_of_one_is_enough",
        left_out=True),
    *cannot(
        "a hundred thousand entries: more than a minute",
        "an_archive_has_a_limit_of_entries",
        left_out=True),
)
