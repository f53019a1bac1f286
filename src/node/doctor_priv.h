/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "json/json.h"

struct handlers;

/* `cay doctor`: doctor.c asks what the node needs to start, doctor_host.c what makes hosts differ,
 * and doctor_try.c tries what must be tried to be known. */
enum verdict {
	VERDICT_OK,
	VERDICT_WARN, /* the node works, with less */
	VERDICT_FAIL, /* the node does not work */
	VERDICT_MAX_,
};

struct doctor {
	const char *data_dir;
	const struct handlers *handlers;
	struct json_doc *out;
	struct json *checks;
	size_t n_failed;
};

/* message and fix are malloc'd and taken over; fix NULL: there is nothing to fix. */
void doctor_say(struct doctor *d, const char *name, enum verdict v, char *message, char *fix);
/* The number in a file of /proc; -1: there is none. */
int64_t doctor_number(const char *path);

/* doctor_host.c */
void check_system_calls(struct doctor *d);
void check_namespaces(struct doctor *d);
void check_cgroup_layout(struct doctor *d);
void check_capability(struct doctor *d);
void check_host_image(struct doctor *d);
void check_network(struct doctor *d);
void check_sleep(struct doctor *d);

/* doctor_try.c */
void check_veth(struct doctor *d);
void check_outlet(struct doctor *d);
void check_kvm(struct doctor *d);
void check_landlock(struct doctor *d);
void check_cgroup_moves(struct doctor *d);
