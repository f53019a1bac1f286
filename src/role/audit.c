/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log of `cay serve` and `cay router`: where it is, and what becomes of the process when
 * it cannot be written. It goes on, says so, and keeps a bounded number of records until they can
 * be.
 */
#include "audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "audit/chain.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/settings.h"
#include "crypto/crypto.h"
#include "role/audit_priv.h"

enum {
	KEY_MAX = 4096,
};

static void on_trouble(void *arg, const struct err *e)
{
	const char *path = arg;

	if (e)
		log_error("audit log cannot be written, keeping records and trying again",
			  KV("path", path), KV("err", e));
	else
		log_info("audit log is written again", KV("path", path));
}

/* The private key is the server's alone; the public one is for whoever checks the log. */
static struct err *audit_key_make(int dir, struct ed25519 **ret)
{
	autoptr(ed25519) key = ed25519_new();
	autofree char *pem = ed25519_pem(key), *text = NULL;
	unsigned char public[ED25519_KEY_LEN];
	autobuf line = { 0 };
	struct err *e;

	ed25519_public(key, public);
	text = base64_encode(public, sizeof(public), false);
	buf_printf(&line, "%s\n", text);
	e = file_write_atomic(dir, AUDIT_PUBLIC, buf_head(&line), line.len, 0644);
	if (!e)
		e = file_write_atomic(dir, AUDIT_KEY, pem, strlen(pem), 0600);
	if (!e)
		*ret = take(key);
	return e;
}

struct err *audit_key_open(const char *data_dir, struct ed25519 **ret)
{
	autoclose dir = open(data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	autofree char *pem = NULL;
	struct err *e;

	if (dir < 0)
		return err_sys(errno, "open %s", data_dir);
	if (!file_exists(dir, AUDIT_KEY))
		return audit_key_make(dir, ret);
	e = file_read(dir, AUDIT_KEY, KEY_MAX, &pem, NULL);
	return e ? e : ed25519_read(pem, ret);
}

struct err *audit_start(struct loop *l, const struct settings *s, const struct audit_place *place,
			struct audit **ret, char **ret_path)
{
	const char *said = settings_text(s, "audit-log");
	autofree char *at = xstrdup(str_empty(said) ? place->path : said);
	const struct audit_spec spec = {
		.path = at,
		.max_bytes = (uint64_t)settings_int(s, "audit-log-size"),
		.keep = (unsigned)settings_int(s, "audit-log-keep"),
		.trouble = on_trouble,
		.arg = at,
		.key = place->key,
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
