/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/macros.h"
#include "json/json.h"

/* check.c: what was found so far. */
struct findings {
	struct json_doc *doc;
	struct json *list;
	size_t faults, dropped;
};
enum finding {
	FINDING_FAULT, /* a server would not start, or would serve something wrong */
	FINDING_NOTE,  /* worth knowing; a server copes with it */
};
/* what: a key of the store, or a file. fix says what to do. At most 1,000 are kept. */
void findings_add(struct findings *f, enum finding severity, const char *what, const char *message,
		  const char *fix);

/* check_keys.c: the CA and the signing keys. */
void check_keys(struct findings *f, const char *data_dir);
