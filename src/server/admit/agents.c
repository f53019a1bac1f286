/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/kind.h"
#include "base/clock.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/call.h"
#include "server/objects/objects.h"

/*
 * What is said of who made an Agent and who decided an Approval is said by the server, whatever a
 * client writes there. This process, which acts for others, is believed.
 */

static const char *owner_in(const struct json *obj)
{
	return json_get_str(json_get(json_get(obj, "metadata"), "annotations"), KEY_OWNER);
}

static void settle_owner(struct op *op, struct json_doc *d, const struct json *old)
{
	const char *owner = old ? owner_in(old) : op->who->name;
	struct json *meta = json_need_obj(d, json_root(d), "metadata");
	struct json_doc *before;

	if (str_eq(owner, owner_in(json_root(d))))
		return;
	before = old ? NULL : track_before(op, d);
	json_set_str(d, json_need_obj(d, meta, "annotations"), KEY_OWNER, owner);
	track_after(op, before, d);
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
	if (k == os->agent && !*op->sub)
		settle_owner(op, d, old);
	else if (k == os->approval && str_eq(op->sub, "status"))
		settle_decision(op, d, old);
}
