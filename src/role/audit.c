/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log of `cay serve`: where it is, and what becomes of the process when it cannot be
 * written. It goes on, says so, and keeps a bounded number of records until they can be.
 */
#include "audit/audit.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/str.h"
#include "cli/settings.h"
#include "client/access.h"
#include "role/serve_priv.h"
#include "server/server.h"

static void on_trouble(void *arg, const struct err *e)
{
	const char *path = arg;

	if (e)
		log_error("audit log cannot be written, keeping records and trying again",
			  KV("path", path), KV("err", e));
	else
		log_info("audit log is written again", KV("path", path));
}

struct err *serve_start_audit(struct serve *s)
{
	const char *path = settings_text(s->settings, "audit-log");
	struct audit_spec spec = {
		.max_bytes = (uint64_t)settings_int(s->settings, "audit-log-size"),
		.keep = (unsigned)settings_int(s->settings, "audit-log-keep"),
		.trouble = on_trouble,
	};
	struct err *e;

	if (str_eq(path, "none"))
		return NULL;
	s->audit_path = str_empty(path)
				? xasprintf("%s/audit.log", settings_text(s->settings, "data-dir"))
				: xstrdup(path);
	spec.path = s->audit_path;
	spec.arg = s->audit_path;
	e = audit_open(s->loop, &spec, &s->audit);
	if (!e)
		server_set_audit(s->server, s->audit);
	return e;
}

void serve_audit_metrics(const struct serve *s, struct buf *b)
{
	struct audit_counts n = audit_counts(s->audit);

	metrics_counter(b, "cay_audit_records_total", "Lines written to the audit log.", n.written);
	metrics_counter(b, "cay_audit_lost_total",
			"Records that the audit log has not, because it could not be written.",
			n.lost);
}
