/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log and the overview on the port of the API server, which knows who asks and what they
 * may do.
 */
#include "oversight/oversight.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/settings.h"
#include "crypto/crypto.h"
#include "role/serve_priv.h"
#include "server/server.h"

static const char *const paths[] = { OVERSIGHT_AUDIT, OVERSIGHT_VERIFY, OVERSIGHT_OVERVIEW };

static struct err *may_get(void *arg, const struct access_target *who, const char *path)
{
	struct serve *s = arg;

	return server_user_may_get(s->server, who, path);
}

static struct err *may(void *arg, const struct access_target *who, const struct oversight_act *act)
{
	struct serve *s = arg;

	return server_user_may(s->server, who,
			       &(struct server_act){ .verb = act->verb,
						     .group = act->group,
						     .plural = act->plural,
						     .ns = act->ns });
}

static void visit(void *arg, struct http_request *req, const struct access_target *who)
{
	const struct serve *s = arg;

	oversight_visit(s->oversight, req, who);
}

void serve_start_oversight(struct serve *s)
{
	bool to_file = s->audit && !str_eq(s->audit_path, "-");
	const struct oversight_spec spec = {
		.audit = to_file ? s->audit : NULL,
		.audit_path = s->audit_path,
		.audit_key = s->audit_public,
		.control = s->control,
		.client = s->oversight_client,
		.node_name = s->node_name,
		.data_dir = settings_text(s->settings, "data-dir"),
		.may_get = may_get,
		.may = may,
		.refuse = server_refuse,
		.arg = s,
	};

	if (s->audit_key)
		ed25519_public(s->audit_key, s->audit_public);
	s->oversight = oversight_new(s->loop, &spec);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		server_add_endpoint(
			s->server,
			&(struct server_endpoint){ .path = paths[i], .visit = visit, .arg = s });
}

void serve_stop_oversight(struct serve *s)
{
	if (!s->oversight)
		return;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		server_del_endpoint(s->server, paths[i]);
	oversight_free(take(s->oversight));
}
