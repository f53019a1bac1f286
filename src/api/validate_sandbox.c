/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "api/schema.h"
#include "base/str.h"

/*
 * The two rules of a Sandbox that go beyond its table. On a cluster they are CEL rules of the CRD;
 * openapi_crd() writes them.
 */

/* A Service of that name could not exist. An object that already has it may still be updated. */
void validate_sandbox_name(const struct json *obj, const struct json *old, struct causes *c)
{
	const char *name = json_get_str(json_get(obj, "metadata"), "name");

	if (!json_get_bool(json_get(obj, "spec"), "service", false) ||
	    strlen(str_or(name, "")) <= 63)
		return;
	if (!json_get_bool(json_get(old, "spec"), "service", false))
		causes_invalid_str(c, "metadata.name", name,
				   "must be no more than 63 characters when spec.service is true");
}

void validate_sandbox(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *now = json_get(json_get(obj, "spec"), "volumeClaimTemplates");
	const struct json *was = json_get(json_get(old, "spec"), "volumeClaimTemplates");

	validate_sandbox_name(obj, old, c);
	if (old && !json_equal(now, was))
		causes_add(c, CAUSE_INVALID, "spec",
			   "Invalid value: volumeClaimTemplates is immutable");
}
