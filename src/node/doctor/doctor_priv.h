/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"
#include "node/host/features.h"

struct cgroups;
struct handlers;
struct node_doctor_spec;
struct scope;

/* What the doctor makes in the place, until it ends: this and the number of a process. */
#define DOCTOR_DIR ".cay-doctor-"

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
	char *place; /* where sandboxes write, or what is there already of the way to it */
	char *trial; /* a directory in it with a disk that is thrown away; NULL: none was needed */
	char *work;  /* where sandboxes are tried: the place, or the disk in trial */
	struct features features;
	bool tried;             /* the features */
	struct cgroups *groups; /* in which others are tried; NULL: none can be made, */
	struct err *no_groups;  /* for this reason */
	struct scope *scope;    /* that they are in; NULL as well */
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
void doctor_groups_open(struct doctor *d);
void doctor_groups_clean(const struct doctor *d); /* ends whatever runs in them, and removes them */
void doctor_groups_done(struct doctor *d);
void check_cgroups(struct doctor *d);
void check_scope(struct doctor *d);

/* place.c */
void doctor_place_open(struct doctor *d);
/* Where the node would make a disk pool, makes one to throw away and work in. False: it would not,
 * or that cannot be done. It is in a mount namespace, which the process moves to. */
bool doctor_place_make_disk(struct doctor *d);
void doctor_place_clean(const struct doctor *d); /* also for a child of the doctor */
void doctor_place_done(struct doctor *d);

/* launch.c */
void check_launch(struct doctor *d);

/* system.c */
void check_userns_limits(struct doctor *d);
void check_snap(struct doctor *d);
void check_upstream(struct doctor *d);

/* networkd.c */
void check_networkd(struct doctor *d);

/* try.c */
/* Why the file system in memory that stands in for a tmpfs without mapped ids cannot be made. */
must_use struct err *doctor_try_memory_disk(void);
void check_veth(struct doctor *d);
void check_outlet(struct doctor *d);
void check_kvm(struct doctor *d);
void check_landlock(struct doctor *d);
void check_cgroup_moves(struct doctor *d);
