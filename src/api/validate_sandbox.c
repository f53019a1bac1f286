/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/cay/visibility.h"
#include "api/kind_priv.h"
#include "api/schema.h"
#include "api/validate_priv.h"
#include "base/str.h"

/*
 * The two rules of a Sandbox that go beyond its table, which on a cluster are CEL rules of the CRD
 * (openapi_crd() writes them), and those about our annotations, which CEL does not see.
 */

static const struct json *notes_of(const struct json *obj)
{
	return json_get(json_get(obj, "metadata"), "annotations");
}

/* An annotation of ours has one of these values, or none. What an object had before may stay. */
static void check_note(const struct json *obj, const struct json *old, const char *key,
		       const char *const *values, struct causes *c)
{
	const char *now = json_get_str(notes_of(obj), key);
	const char *was = json_get_str(notes_of(old), key);
	const struct path at = { .name = "metadata" };

	if (now && !str_in(now, values) && !str_eq(now, was))
		bad_unsupported(c, KEY(IN(&at, "annotations"), key), now, values);
}

static void check_visibility(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *notes = notes_of(obj);

	check_note(obj, old, KEY_VISIBILITY, visibility_names, c);
	if (str_eq(json_get_str(notes, KEY_VISIBILITY), visibility_names[VISIBILITY_PRIVATE]) &&
	    str_empty(json_get_str(notes, KEY_OWNER)))
		causes_invalid_str(c, "metadata.annotations[" KEY_VISIBILITY "]", "Private",
				   "must be set when the object is created: it has no owner");
}

void validate_notes(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const resets[] = { "true", "false", NULL };

	check_note(obj, old, KEY_RESET, resets, c);
	check_visibility(obj, old, c);
}

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
