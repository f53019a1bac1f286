/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "json/json.h"

/*
 * What this kernel can do for the node, found out by doing it. A version number does not tell, as
 * distributions carry features back, and an interface does not tell either: before Linux 6.5 an
 * overlay takes any option and refuses only when it is created. So each feature is tried once, at
 * the start, by a process of its own (`cay-launch --probe`, node/launch/probe.c), and whoever has
 * to choose between a feature and what is done without it asks here.
 */
enum feature {
	FEATURE_OVERLAY,
	FEATURE_OVERLAY_APPEND, /* layers are given one by one: "lowerdir+" */
	FEATURE_OVERLAY_VOLATILE,
	FEATURE_OVERLAY_IDMAP, /* of layers whose ids are mapped */
	FEATURE_IDMAP_DISK,    /* on the file system that sandboxes write to */
	FEATURE_IDMAP_TMPFS,
	FEATURE_PTY, /* with the highest group id that a slot has */
	FEATURE_CGROUP_KILL,
	FEATURE_PEER_PIDFD, /* SO_PEERPIDFD */
	FEATURE_UNIX_DIAG,  /* only asked for without the one before */
	FEATURE_MAX_,
};

struct feature_info {
	const char *name; /* "overlay-append" */
	bool needed;      /* no sandbox starts without it */
	const char *what, *without, *fix;
};
const struct feature_info *feature_info(enum feature f);

struct features {
	unsigned have;           /* a bit for each */
	char *why[FEATURE_MAX_]; /* of what is missing: the kernel's words, malloc'd */
};
void features_done(struct features *fs);
bool features_have(const struct features *fs, enum feature f);
void features_note(struct features *fs, enum feature f, struct err *missing); /* takes it over */
/* Whether something is missing that is of use here. */
bool features_lack(const struct features *fs, enum feature f);

/* For one process to tell another. */
char *features_names(const struct features *fs); /* "overlay,pty", malloc'd */
struct features features_named(const char *names);
void features_write(const struct features *fs, struct json_doc *d, struct json *obj);
#define FEATURES_UNTRIED "untried" /* a key instead of the names: why nothing could be tried */

/* Does as if the kernel lacked these, "overlay-append,idmap-disk"; NULL: none. ERR_INVALID: there
 * is no such feature. */
must_use struct err *features_drop(struct features *fs, const char *names);
must_use struct err *features_check_names(const char *names);
/* NULL, or what keeps every sandbox from starting, with what to do about it. */
must_use struct err *features_enough(const struct features *fs);

struct features_spec {
	const char *launcher; /* cay-launch */
	const char *dir;      /* on the file system that sandboxes write to */
	const char *group;    /* a directory of cgroup2 in which groups may be made; NULL: none */
	uint32_t last_id;     /* the highest user or group id that a sandbox may have */
};
/* Has the launcher try them all. Blocks, for some milliseconds, or longer where modules have to be
 * loaded. As root. An error means that nothing could be tried. */
must_use struct err *features_probe(const struct features_spec *spec, struct features *ret);
/* What a probe leaves if it is killed, by its process number. */
char *features_probe_dir(const char *dir, int pid);
