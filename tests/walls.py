# SPDX-License-Identifier: Apache-2.0
"""Every wall around a sandbox, and the test that notices when it is down.

`tools/run-tests --long walls` takes each wall down, in a build made for it (src/base/wall.h), and fails if the test named here
stays green. A wall that a second one hides names it: both are taken down together, or there would be nothing to see.
"""

import typing


class Wall(typing.NamedTuple):
    name: str  # as wall_stands() asks for it
    test: str  # below tests/, as pytest names it
    hidden_by: tuple = ()  # names of walls that hide its fall


ISOLATION = "integration/test_isolation.py::"
VIEWS = "integration/test_views.py::"
ATTEMPT = VIEWS + "test_no_attempt_from_a_view_changes_a_file"
DOORS = "integration/test_doors.py::"
FILTER = ISOLATION + "test_the_filter_in_the_kernel_answers_as_listed"

WALLS = (
    Wall("disk-quota", "integration/test_disk.py::test_limits_are_those_of_the_pod"),
    Wall("disk-layer", "integration/test_disk.py::test_the_layer_is_full_at_its_limit"),
    Wall("disk-volume", "integration/test_disk.py::test_an_empty_dir_is_full_at_its_limit"),
    Wall("group-walk", "integration/test_storage.py::test_contents_are_given_to_the_fs_group_and_links_lead_nowhere"),
    Wall("host-path-policy", "integration/test_host_path.py::test_what_the_operator_has_not_allowed_is_refused_by_its_field[etc]"),
    Wall("host-path-links", "integration/test_host_path.py::test_what_is_no_file_or_directory_of_the_allowed_ones_is_not_mounted[link]"),
    Wall("host-path-ids", "integration/test_host_path.py::test_a_sandbox_is_a_stranger_in_what_it_may_read"),
    Wall("disk-log", "integration/test_disk.py::test_every_subvolume_has_a_limit"),
    Wall("disk-refusal", "integration/test_disk.py::test_a_plain_pool_refuses_limits_that_nothing_enforces"),
    Wall("seccomp-btrfs", "integration/test_disk.py::test_a_sandbox_makes_no_subvolumes_and_no_shared_copies"),
    Wall("gate", "integration/test_gate_doors.py::test_no_way_of_the_router_leads_in_without_the_gate[header]"),
    Wall("agent-tools", "integration/test_mcp_agents.py::test_an_agent_sees_only_the_tools_that_it_was_granted"),
    Wall("egress", "integration/test_gate_doors.py::test_no_packet_leaves_without_the_gate[tcp]"),
    Wall("outlet-address", "integration/test_outlet.py::test_no_name_leads_to_what_no_sandbox_reaches"),
    Wall("credential-agents", "integration/test_outlet.py::test_all_agents_of_a_sandbox_must_be_allowed"),
    Wall("impersonation", "integration/test_identity.py::test_nobody_acts_as_another_without_the_right_to"),
    Wall("escalation", "integration/test_rbac.py::test_nobody_gives_away_more_than_they_hold"),
    Wall("agent-verbs", "integration/test_agent_kinds.py::test_a_key_is_verified_only_with_the_verb"),
    Wall("credential-end", "integration/test_users.py::test_a_user_is_made_given_rights_and_ended[certificate]"),
    Wall("agent-key", "integration/test_agent_identity.py::test_the_end_of_a_key_cuts_what_is_open[key]"),
    Wall("narrowed-token", "integration/test_agent_identity.py::test_a_narrowed_token_works_with_kubectl_for_what_it_leaves"),
    Wall("open-watches", "integration/test_rbac.py::test_what_is_open_ends_with_the_right_to_open_it"),
    Wall("anonymous-rights", "integration/test_identity.py::test_nobody_without_a_credential_reads_an_object"),
    Wall("account-rights", "integration/test_identity.py::test_an_account_has_no_rights_until_it_is_given_some"),
    Wall("token-expiry", "integration/test_identity.py::test_an_expired_token_is_worth_nothing"),
    Wall("token-binding", "integration/test_identity.py::test_a_bound_token_ends_with_its_pod"),
    Wall("endpoint-users", "integration/test_mcp_wire.py::test_nobody_is_let_in_without_a_credential"),
    Wall("hook-signature", "integration/test_hooks.py::test_what_is_not_rightly_signed_gets_one_answer"),
    Wall("mcp-rights", "integration/test_mcp.py::test_tools_have_the_rights_of_their_user_and_no_others"),
    Wall("mcp-owner", "integration/test_mcp.py::test_two_users_in_one_namespace_never_reach_each_others_sandboxes"),
    Wall("mcp-session", "integration/test_mcp_wire.py::test_a_session_is_of_its_user_alone"),
    Wall("token-mint", "integration/test_identity.py::test_a_token_cannot_get_a_better_one"),
    Wall("pod-allow-list", "integration/test_node_pods.py::test_what_the_node_does_not_do_is_refused_by_its_path[hostusers--]"),
    # namespaces and ids
    Wall("user-namespace", ISOLATION + "test_a_namespace_is_the_sandboxs_own[user]"),
    Wall("pid-namespace", ISOLATION + "test_a_slot_is_born_with_namespaces_of_its_own"),  # cay-init must be process 1
    Wall("network-namespace", ISOLATION + "test_a_namespace_is_the_sandboxs_own[net]"),
    Wall("ipc-namespace", ISOLATION + "test_a_namespace_is_the_sandboxs_own[ipc]"),
    Wall("uts-namespace", ISOLATION + "test_a_namespace_is_the_sandboxs_own[uts]"),
    Wall("cgroup-namespace", ISOLATION + "test_a_namespace_is_the_sandboxs_own[cgroup]"),
    Wall("userns-owner", ISOLATION + "test_another_sandbox_has_all_of_its_own_share"),
    # processes
    Wall("capabilities", ISOLATION + "test_cay_init_has_only_the_capabilities_that_containers_may_get"),
    Wall("no-new-privileges", ISOLATION + "test_no_process_gains_privileges", ("seccomp",)),  # a filter needs it
    Wall("rlimits", ISOLATION + "test_resource_limits"),
    Wall("ucounts", ISOLATION + "test_the_user_namespace_limits_its_counters"),
    # the system call filter
    Wall("seccomp", ISOLATION + "test_every_process_has_the_filter"),
    Wall("seccomp-abi", FILTER + "[foreign ABIs]"),
    Wall("seccomp-aio", ISOLATION + "test_a_sandbox_gets_its_share_of_what_the_kernel_counts"),
    Wall("seccomp-core-limit", FILTER + "[core limit]"),
    Wall("seccomp-forbidden", FILTER + "[forbidden]"),
    Wall("seccomp-namespaces", FILTER + "[namespaces]"),
    Wall("seccomp-socket", FILTER + "[sockets]"),
    # files
    Wall("nosuid", ISOLATION + "test_the_mounts_are_exactly_these"),
    Wall("nodev", ISOLATION + "test_the_mounts_are_exactly_these"),
    Wall("read-only", ISOLATION + "test_the_mounts_are_exactly_these"),
    Wall("root-read-only", ISOLATION + "test_a_read_only_root_is_all_read_only"),
    Wall("old-root", ISOLATION + "test_the_mounts_are_exactly_these"),
    Wall("mount-propagation", ISOLATION + "test_no_mount_follows_those_of_the_host"),
    Wall("runtime-jail", "integration/test_runtimes.py::test_no_descriptor_of_the_host_is_open[crun]"),
    Wall("host-usr-ids", ISOLATION + "test_what_only_root_of_the_host_may_read_is_not_read_inside"),
    Wall("host-usr-closed", "integration/test_host_writable.py::test_what_only_root_of_the_machine_may_read_stays_closed[native]"),
    Wall("proc-files", ISOLATION + "test_files_of_proc_are_masked"),
    Wall("proc-dirs", ISOLATION + "test_directories_of_proc_are_masked"),
    Wall("proc-read-only", ISOLATION + "test_directories_of_proc_are_read_only"),
    Wall("pty-max", ISOLATION + "test_a_sandbox_gets_its_share_of_what_the_kernel_counts"),
    # control groups
    Wall("memory-limit", ISOLATION + "test_the_memory_limit_is_exact"),
    Wall("cpu-limit", ISOLATION + "test_the_cpu_limit_is_exact"),
    Wall("pids-limit", ISOLATION + "test_the_limit_of_processes_is_exact"),
    # views, and who is in them
    Wall("seat-group", VIEWS + "test_commands_run_in_a_group_of_their_attachment_within_that_of_the_sandbox[Shared]"),
    Wall("view-read-only", VIEWS + "test_every_mount_of_a_read_only_view_is_read_only"),
    Wall("view-pids", VIEWS + "test_agents_do_not_see_what_is_in_the_environment_of_others"),
    Wall("view-network", ATTEMPT + "[port-Scratch]"),
    Wall("view-ipc", VIEWS + "test_a_view_shares_no_memory_with_the_sandbox[Scratch]"),
    Wall("view-sockets", ATTEMPT + "[stream socket-ReadOnly]"),
    Wall("view-landlock", ATTEMPT + "[named pipe-ReadOnly]"),
    # what a crowd may take
    Wall("connection-budget",
         "integration/test_crowd.py::test_silent_connections_leave_descriptors_for_api_and_guests"),
    # who may enter
    Wall("router-uid", "integration/test_local_user.py::test_the_router_knows_who_asks"),
    Wall("router-host", "integration/test_local_user.py::test_host_must_be_ours"),
    Wall("browser-way", DOORS + "test_who_has_connected_is_not_enough_where_a_page_could_have_made_it"),
    Wall("browser-header", DOORS + "test_what_a_browser_says_it_has_sent_is_not_its_users"),
    Wall("seal", DOORS + "test_what_was_changed_or_made_elsewhere_is_refused"),
    Wall("pass-target", DOORS + "test_a_cookie_opens_no_other_sandbox_and_no_other_port"),
    Wall("pass-uid", DOORS + "test_a_url_opens_the_sandbox_it_was_made_for_and_not_the_next_of_its_name"),
    Wall("private", "integration/test_visibility.py::test_nobody_but_its_owner_uses_a_private_sandbox"),
    Wall("pass-reset", "integration/test_reset.py::test_nothing_of_the_first_user_is_left_for_the_second"),
    Wall("pass-expiry", DOORS + "test_a_url_ends_with_its_time"),
    Wall("cookie-origin", DOORS + "test_other_pages_cannot_use_the_cookie[a-form-of-a-sibling]"),
    Wall("cookie-name", DOORS + "test_a_sandbox_sets_no_cookie_of_the_routers_and_none_for_its_siblings"),
    Wall("cookie-domain", DOORS + "test_a_sandbox_sets_no_cookie_of_the_routers_and_none_for_its_siblings"),
    Wall("path-origin", DOORS + "test_sandboxes_share_an_origin_by_path_and_their_pages_get_none"),
    Wall("identity-headers", DOORS + "test_a_client_cannot_say_who_it_is"),
    Wall("sni-uid", DOORS + "test_another_user_is_not_passed_on"),
    Wall("node-port-uid", "integration/test_services.py::test_another_user_of_the_machine_does_not_get_in"),
    Wall("service-endpoint", "integration/test_services.py::test_an_endpoint_must_be_a_pod_of_the_services_own_namespace"),
    Wall("filter-output", "integration/test_local_user.py::test_only_the_daemon_sends_packets_to_sandboxes"),
    Wall("filter-spoof", "integration/test_walls.py::test_a_foreign_source_address_goes_nowhere"),
    Wall("filter-to-host", "integration/test_filter.py::test_the_host_is_shut_by_its_own_filter",
         hidden_by=("filter-output",)),
    Wall("filter-through", "integration/test_filter.py::test_the_host_forwards_nothing_to_sandboxes_and_private_networks"),
    Wall("filter-strangers", "integration/test_forwarding.py::test_the_host_forwards_nobody_elses_packets"),
    Wall("network-policy", "integration/test_policy.py::test_a_policy_shuts_the_pods_that_it_selects_and_no_others"),
    Wall("egress-none", "integration/test_egress.py::test_without_egress_there_is_no_way_out"),
    Wall("filter-inner", "integration/test_filter.py::test_the_filter_inside_holds_while_the_hosts_is_gone"),
    Wall("filter-watch", "integration/test_filter.py::test_a_touched_table_is_restored_and_reported"),
    Wall("guest-credit-cap",
         "integration/test_hostile_guest.py::test_a_broken_protocol_ends_the_container_and_says_how[hostile-credit-"
         "4294967295 bytes of credit]"),
    Wall("guest-protocol",
         "integration/test_hostile_guest.py::test_a_broken_protocol_ends_the_container_and_says_how[hostile-stream-"
         "STDOUT on stream 77]"),
    Wall("guest-unsent-full", "integration/test_hostile_guest.py::test_credit_without_end_does_not_fill_the_daemon",
         ("guest-credit-cap",)),
    Wall("oom-score", "integration/test_host.py::test_sandboxes_are_killed_before_the_daemon"),
    Wall("instance-memory", "integration/test_host.py::test_all_sandboxes_together_leave_memory_to_the_host"),
    Wall("instance-pids", "integration/test_host.py::test_all_sandboxes_together_leave_processes_to_the_host"),
    Wall("default-memory", "integration/test_host.py::test_a_container_without_a_limit_gets_the_default"),
    Wall("pod-pids", "integration/test_host.py::test_the_containers_of_a_pod_share_its_number_of_processes"),
    Wall("max-pods", "integration/test_host.py::test_a_node_runs_a_bounded_number_of_pods"),
)
