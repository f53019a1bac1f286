/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log of `cay serve` and `cay router`: where it is, and what becomes of the process when
 * it cannot be written. It goes on, says so, and keeps a bounded number of records until they can
 * be.
 */
#include "audit/audit.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/str.h"
#include "cli/settings.h"
#include "role/audit_priv.h"

static void on_trouble(void *arg, const struct err *e)
{
	const char *path = arg;

	if (e)
		log_error("audit log cannot be written, keeping records and trying again",
			  KV("path", path), KV("err", e));
	else
		log_info("audit log is written again", KV("path", path));
}

struct err *audit_start(struct loop *l, const struct settings *s, const char *path,
			struct audit **ret, char **ret_path)
{
	const char *said = settings_text(s, "audit-log");
	autofree char *at = xstrdup(str_empty(said) ? path : said);
	const struct audit_spec spec = {
		.path = at,
		.max_bytes = (uint64_t)settings_int(s, "audit-log-size"),
		.keep = (unsigned)settings_int(s, "audit-log-keep"),
		.trouble = on_trouble,
		.arg = at,
	};
	struct err *e;

	*ret = NULL;
	if (str_eq(at, "none"))
		return NULL;
	e = audit_open(l, &spec, ret);
	if (!e)
		*ret_path = take(at);
	return e;
}

void audit_metrics(const struct audit *a, struct buf *b)
{
	struct audit_counts n = audit_counts(a);

	metrics_counter(b, "cay_audit_records_total", "Lines written to the audit log.", n.written);
	metrics_counter(b, "cay_audit_lost_total",
			"Records that the audit log has not, because it could not be written.",
			n.lost);
}
