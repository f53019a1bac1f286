/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct audit;
struct buf;
struct ed25519;
struct loop;
struct settings;

/* The audit log of a role: its settings, and what becomes of the process when it cannot be written.
 */
#define AUDIT_SETTINGS(what_)                                                                      \
	{ "audit-log", SETTING_TEXT, NULL, "FILE", what_ },                                        \
		{ "audit-log-size",                                                                \
		  SETTING_SIZE,                                                                    \
		  "64Mi",                                                                          \
		  "SIZE",                                                                          \
		  "Size at which the audit log is begun anew",                                     \
		  .min = 1 << 10,                                                                  \
		  .max = INT64_C(1) << 40 },                                                       \
		{ "audit-log-keep", SETTING_INT, "4", "N", "Audit logs to keep beside the newest", \
		  .min = 0,         .max = 1000 }

struct audit_place {
	const char *path;
	const struct ed25519 *key; /* signs it, and outlives it; NULL: nobody does */
};
/* Opens it where the settings say, or else at that path. *ret is NULL if there is to be none;
 * otherwise *ret_path must outlive it. */
must_use struct err *audit_start(struct loop *l, const struct settings *s,
				 const struct audit_place *place, struct audit **ret,
				 char **ret_path);
/* The key of a data directory, which is made if there is none. */
must_use struct err *audit_key_open(const char *data_dir, struct ed25519 **ret);
void audit_metrics(const struct audit *a, struct buf *b);
