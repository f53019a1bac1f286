/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/visibility.h"

#include "api/cay/cay.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"

const char *const visibility_names[] = {
	[VISIBILITY_PRIVATE] = "Private",
	[VISIBILITY_TEAM] = "Team",
	[VISIBILITY_GLOBAL] = "Global",
	NULL,
};

static const char *word_of(const struct object *o)
{
	return str_eq(o->kind->group, GROUP_CAY) ? json_get_str(object_spec(o), "visibility")
						 : object_annotation(o, KEY_VISIBILITY);
}

enum visibility visibility_of(const struct object *o)
{
	const char *word = word_of(o);

	for (unsigned i = 0; word && i < VISIBILITY_MAX_; i++)
		if (str_eq(word, visibility_names[i]))
			return i;
	return VISIBILITY_TEAM;
}

bool visibility_shuts_out(const struct object *o, const char *user)
{
	const char *owner;

	if (visibility_of(o) != VISIBILITY_PRIVATE)
		return false;
	owner = object_annotation(o, KEY_OWNER);
	return str_empty(owner) || !str_eq(owner, user);
}
