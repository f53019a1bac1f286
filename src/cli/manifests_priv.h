/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "json/json.h"

struct router_place {
	const char *ns;
	const char *image; /* that has this program as its entry point */
};
/* Appends what a cluster needs to run `cay router`. */
must_use struct err *manifests_add_router(struct json_doc *d, struct json *list,
					  const struct router_place *at);
