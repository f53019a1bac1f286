/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "json/json.h"
#include "node/host/features.h"

struct cgroups;
struct handlers;
struct node_doctor_spec;

/* `cay doctor`; the README of this folder says what is where. */
enum verdict {
	VERDICT_OK,
	VERDICT_WARN, /* the node works, with less */
	VERDICT_FAIL, /* the node does not work */
	VERDICT_MAX_,
};

struct doctor {
	const struct node_doctor_spec *spec;
	const char *data_dir;
	char *place; /* the data directory, or what is there already of the way to it */
	struct features features;
	bool tried;             /* the features */
	struct cgroups *groups; /* in which others are tried; NULL: none can be made, */
	struct err *no_groups;  /* for this reason */
	const struct handlers *handlers;
	struct json_doc *out;
	struct json *checks;
	size_t n_failed;
};

/* message and fix are malloc'd and taken over; fix NULL: there is nothing to fix. */
void doctor_say(struct doctor *d, const char *name, enum verdict v, char *message, char *fix);
/* The number in a file of /proc; -1: there is none. */
int64_t doctor_number(const char *path);

/* host.c */
void check_system_calls(struct doctor *d);
void check_namespaces(struct doctor *d);
void check_cgroup_layout(struct doctor *d);
void check_capability(struct doctor *d);
void check_host_image(struct doctor *d);
void check_network(struct doctor *d);
void check_sleep(struct doctor *d);

/* features.c; the first of these fills in d->features */
void check_features(struct doctor *d);

/* groups.c: the control groups that are used for trying, and what they can do */
struct scope *doctor_groups_open(struct doctor *d); /* NULL: there is none; scope_free() ends it */
void doctor_groups_clean(const struct doctor *d); /* ends whatever runs in them, and removes them */
void check_cgroups(struct doctor *d);

/* launch.c */
void check_launch(struct doctor *d);

/* system.c */
void check_userns_limits(struct doctor *d);
void check_snap(struct doctor *d);
void check_upstream(struct doctor *d);

/* try.c */
void check_veth(struct doctor *d);
void check_outlet(struct doctor *d);
void check_kvm(struct doctor *d);
void check_landlock(struct doctor *d);
void check_cgroup_moves(struct doctor *d);
