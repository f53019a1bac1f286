/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/cay/visibility.h"
#include "api/kind.h"
#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/call.h"
#include "server/objects/objects.h"

/*
 * What is said of who made an object and who decided an Approval is said by the server, whatever a
 * client writes there. This process, which acts for others, is believed.
 */

static const char *owner_in(const struct json *obj)
{
	return json_get_str(json_get(json_get(obj, "metadata"), "annotations"), KEY_OWNER);
}

/* Of kinds that need not say whom they are for, only those that do have an owner, from their
 * creation on: nobody makes somebody else's Sandbox their own. */
static const char *owner_due(const struct op *op, const struct json *obj, const struct json *old)
{
	const struct json *notes = json_get(json_get(obj, "metadata"), "annotations");

	if (old)
		return owner_in(old);
	return kind_storage(op->kind) == op->admit->objects->agent ||
			       json_get(notes, KEY_VISIBILITY)
		       ? op->who->name
		       : NULL;
}

static void settle_owner(struct op *op, struct json_doc *d, const struct json *old)
{
	const char *owner = owner_due(op, json_root(d), old);
	struct json *notes;
	struct json_doc *before;

	if (str_eq(owner, owner_in(json_root(d))))
		return;
	before = old ? NULL : track_before(op, d);
	notes = json_need_obj(d, json_need_obj(d, json_root(d), "metadata"), "annotations");
	if (owner)
		json_set_str(d, notes, KEY_OWNER, owner);
	else
		(void)json_del(notes, KEY_OWNER);
	track_after(op, before, d);
}

static bool has_owner(const struct objects *os, const struct kind *k)
{
	return k == os->agent || k == os->sandbox || k == os->sandbox_claim ||
	       k == os->sandbox_template;
}

static void settle_decision(const struct op *op, struct json_doc *d, const struct json *old)
{
	const struct json *was = json_get(old, "status");
	const char *made = json_get_str(json_get(json_root(d), "status"), "decision");
	const char *by = NULL, *at = NULL;
	char now[CLOCK_TEXT_MAX];
	struct json *status;

	if (json_get(was, "decision")) { /* which cannot be changed; validation says so */
		by = json_get_str(was, "decidedBy");
		at = json_get_str(was, "decidedAt");
	} else if (made) {
		clock_format(clock_wall(), now);
		by = op->who->name;
		at = now;
	} else if (!json_get(json_root(d), "status")) {
		return;
	}
	status = json_need_obj(d, json_root(d), "status");
	json_set_str(d, status, "decidedBy", by);
	json_set_str(d, status, "decidedAt", at);
}

void agents_settle(struct op *op, struct json_doc *d, const struct json *old)
{
	const struct objects *os = op->admit->objects;
	const struct kind *k = kind_storage(op->kind);

	if (!op->who)
		return;
	if (has_owner(os, k) && !*op->sub)
		settle_owner(op, d, old);
	else if (k == os->approval && str_eq(op->sub, "status"))
		settle_decision(op, d, old);
}
