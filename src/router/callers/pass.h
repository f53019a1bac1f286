/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "tls/tls.h"

struct route;

/*
 * What a signed URL permits, and the cookie that it is exchanged for. Of a scoped token uid
 * is "" and port 0, which is any.
 */
struct pass {
	char ns[64], id[64], uid[64];
	uint16_t port;
	int64_t expires;   /* Unix seconds */
	char path[256];    /* and all below it; "": any */
	char methods[128]; /* "GET,HEAD"; "": any */
};
enum pass_kind {
	PASS_URL,
	PASS_COOKIE,
	PASS_SCOPED,
	PASS_KIND_MAX_,
};
char *pass_seal(const struct tls_seal_key *k, enum pass_kind kind, const struct pass *p);
/* False: it is not one of ours. Whether it is good for anything is another question. */
bool pass_open(const struct tls_seal_key *k, enum pass_kind kind, const char *text,
	       struct pass *ret);
bool pass_is(enum pass_kind kind, const char *text); /* by its first characters alone */
struct pass_use {
	const struct route *route;
	const char *uid; /* of the sandbox; NULL: it is not known */
	bool others_had; /* its name was given out before, to a sandbox that was reset since */
	const char *method, *path;
	int64_t now; /* Unix seconds */
};
/* ERR_UNAUTHENTICATED: it has expired. ERR_FORBIDDEN: it is for something else. */
must_use struct err *pass_check(const struct pass *p, const struct pass_use *u);
bool pass_path_valid(const char *path); /* for struct pass.path */
