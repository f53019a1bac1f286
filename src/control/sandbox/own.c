/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view.h"
#include "base/str.h"
#include "control/pass/keys.h"
#include "control/sandbox/sandbox_priv.h"

/*
 * Who owns what. A Sandbox touches only what it controls, and adopts only what carries a label that
 * allows it.
 */

enum ownership ownership_of(const struct object *o, const struct object *sandbox)
{
	if (!object_controller(o))
		return UNOWNED;
	return object_controlled_by(o, sandbox->uid) ? OWNED : FOREIGN;
}

bool adoption_allowed(const struct object *o, const char *name_hash)
{
	return str_eq(object_label(o, KEY_ADOPTABLE), "true") ||
	       str_eq(object_label(o, KEY_NAME_HASH), name_hash);
}

struct err *err_foreign(const char *what, const struct object *o, const struct object *sandbox)
{
	struct owner_view owner = owner_view_of(o);

	return err_new(ERR_CONFLICT, "%s \"%s\" is owned by %s/%s (UID: %s), not by sandbox \"%s\"",
		       what, o->name, owner.kind, owner.name, owner.uid, sandbox->name);
}

struct err *err_unadoptable(const char *what, const struct object *o)
{
	return err_new(ERR_CONFLICT,
		       "cannot adopt unowned %s \"%s\": missing required pool authorization label "
		       "(\"" KEY_ADOPTABLE "\") or sandbox tracking label (\"" KEY_NAME_HASH "\")",
		       what, o->name);
}
