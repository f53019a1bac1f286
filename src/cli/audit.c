/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay audit`: reads the audit log of a data directory, and checks its chain. It needs no server
 * and changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/chain.h"
#include "audit/reader.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "crypto/crypto.h"
#include "json/json.h"

static const char *const formats[] = { "text", "json", NULL };

const struct setting audit_settings[] = {
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR", "Data directory of the server" },
	{ "log", SETTING_TEXT, NULL, "FILE",
	  "The log, if it is not audit.log of the data directory" },
	{ "key", SETTING_TEXT, NULL, "FILE",
	  "verify: the public key, as `cay audit key` prints it; a copy that was kept elsewhere proves "
	  "more than the one beside the log" },
	{ "sandbox", SETTING_TEXT, NULL, "NAME", "show: what is about this Sandbox or its Pod" },
	{ "user", SETTING_TEXT, NULL, "NAME", "show: what this user did" },
	{ "agent", SETTING_TEXT, NULL, "NAME", "show: what this agent did" },
	{ "namespace", SETTING_TEXT, NULL, "NAME", "show: what is in this namespace",
	  .letter = 'n' },
	{ "since", SETTING_DURATION, "0", "TIME", "show, export: the last 15m, 24h; 0: all",
	  .max = INT64_C(10) * 366 * 24 * 3600 * 1000 },
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text or json",
	  .choices = formats, .letter = 'o' },
	{ 0 },
};

enum {
	KEY_TEXT_MAX = 256,
	EXIT_UNREADABLE = 3,
};

static char *log_path(const struct settings *s)
{
	const char *given = settings_text(s, "log");

	return given ? xstrdup(given) : xasprintf("%s/audit.log", settings_text(s, "data-dir"));
}

/* show, export */

struct shown {
	struct audit_filter filter;
	bool text; /* for people; otherwise as it is */
};

static void add_word(struct buf *b, const char *before, const char *word)
{
	autofree char *safe = xstrdup(str_or(word, ""));

	if (!*safe)
		return;
	cli_disarm(safe, '\0');
	buf_printf(b, "%s%s", before, safe);
}

static void print_row(const struct json *o)
{
	autobuf b = { 0 };
	int64_t status = json_get_int(o, "status", 0);

	add_word(&b, "", json_get_str(o, "time"));
	add_word(&b, "  ", json_get_str(o, "user"));
	add_word(&b, " as ", json_get_str(o, "as"));
	add_word(&b, "  ", json_get_str(o, "verb"));
	add_word(&b, " ", json_get_str(o, "resource"));
	add_word(&b, "/", json_get_str(o, "subresource"));
	add_word(&b, " ", json_get_str(o, "namespace"));
	add_word(&b, "/", json_get_str(o, "name"));
	if (status)
		buf_printf(&b, "  %lld", (long long)status);
	add_word(&b, "  ", json_get_str(o, "note"));
	if (json_get(o, "lost"))
		buf_printf(&b, "  %lld records are missing here",
			   (long long)json_get_int(o, "lost", 0));
	buf_add_char(&b, '\n');
	cli_write(&b);
}

static void on_shown(void *arg, uint64_t number unused, const char *p, size_t len)
{
	struct shown *w = arg;
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(p, len, NULL, &d);
	autobuf line = { 0 };

	if (e || !audit_filter_wants(&w->filter, json_root(d)))
		return; /* a torn line is for verify */
	if (w->text) {
		print_row(json_root(d));
		return;
	}
	buf_add(&line, p, len);
	buf_add_char(&line, '\n');
	cli_write(&line);
}

/* The oldest line first. */
static struct err *read_log(const char *path, struct shown *w)
{
	struct audit_parts parts = { 0 };
	struct err *e = audit_parts_open(path, &parts);

	for (size_t i = 0; !e && i < parts.n; i++) {
		struct audit_scan scan = {
			.fd = parts.list[i].fd, .len = parts.list[i].len, .fn = on_shown, .arg = w
		};

		e = audit_scan_step(&scan, SIZE_MAX);
		audit_scan_done(&scan);
	}
	audit_parts_done(&parts);
	return e;
}

static int show(const struct settings *s, bool raw)
{
	autofree char *path = log_path(s);
	int64_t since_ms = settings_int(s, "since");
	struct shown w = { .filter = { .chain = raw } };
	struct err *e;

	if (!raw) {
		w.text = str_eq(settings_text(s, "output"), "text");
		w.filter.sandbox = settings_text(s, "sandbox");
		w.filter.user = settings_text(s, "user");
		w.filter.agent = settings_text(s, "agent");
		w.filter.ns = settings_text(s, "namespace");
	}
	if (since_ms)
		w.filter.since = clock_wall() - since_ms * 1000;
	e = read_log(path, &w);
	return e ? cli_fail(err_wrap(e, "audit")) : EXIT_OK;
}

static int show_run(const struct settings *s)
{
	return show(s, false);
}

static int export_run(const struct settings *s)
{
	return show(s, true);
}

/* verify, key */

static char *key_path(const struct settings *s)
{
	const char *given = settings_text(s, "key");

	return given ? xstrdup(given) : xasprintf("%s/" AUDIT_PUBLIC, settings_text(s, "data-dir"));
}

static struct err *read_key(const struct settings *s, unsigned char ret[ED25519_KEY_LEN])
{
	autofree char *path = key_path(s), *text = NULL;
	autofree void *bytes = NULL;
	size_t len = 0;
	struct err *e = file_read(AT_FDCWD, path, KEY_TEXT_MAX, &text, NULL);

	if (e)
		return e;
	text[strcspn(text, "\r\n")] = '\0';
	e = base64_decode(text, false, &bytes, &len);
	if (e || len != ED25519_KEY_LEN) {
		err_free(e);
		return err_new(ERR_INVALID, "%s is not a public key of an audit log", path);
	}
	memcpy(ret, bytes, ED25519_KEY_LEN);
	return NULL;
}

static void print_verified(const struct audit_verdict *v, const char *path, const char *format)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d);
	autobuf out = { 0 };

	json_set_root(d, root);
	(void)json_set(d, root, "findings", json_copy(d, v->findings));
	json_set_str(d, root, "log", path);
	json_set_int(d, root, "files", (int64_t)v->files);
	json_set_int(d, root, "lines", (int64_t)v->lines);
	json_set_int(d, root, "checkpoints", (int64_t)v->checkpoints);
	json_set_int(d, root, "signedUpTo", (int64_t)v->signed_up_to);
	json_set_int(d, root, "faults", (int64_t)v->faults);
	if (!str_eq(format, "text")) {
		cli_print(root, format);
		return;
	}
	json_each(it, v->findings)
		buf_printf(&out, "%s:%lld: %s\n", json_get_str(it.val, "file"),
			   (long long)json_get_int(it.val, "line", 0),
			   json_get_str(it.val, "fault"));
	if (v->faults > AUDIT_FAULTS_LISTED)
		buf_printf(&out, "%llu more are not listed\n",
			   (unsigned long long)v->faults - AUDIT_FAULTS_LISTED);
	buf_printf(&out, "%s: %llu lines in %llu files, %llu checkpoints, %llu faults\n", path,
		   (unsigned long long)v->lines, (unsigned long long)v->files,
		   (unsigned long long)v->checkpoints, (unsigned long long)v->faults);
	cli_write(&out);
}

static int verify_run(const struct settings *s)
{
	autofree char *path = log_path(s);
	autoptr(audit_verify) v = NULL;
	unsigned char key[ED25519_KEY_LEN];
	struct audit_verdict verdict;
	struct err *e = read_key(s, key);
	bool over;

	if (!e)
		e = audit_verify_open(path, key, &v);
	if (!e)
		e = audit_verify_step(v, SIZE_MAX, &over);
	if (e) {
		(void)cli_fail(err_wrap(e, "audit verify"));
		return EXIT_UNREADABLE;
	}
	verdict = audit_verify_verdict(v);
	print_verified(&verdict, path, settings_text(s, "output"));
	return verdict.faults ? EXIT_FAILED : EXIT_OK;
}

static int key_run(const struct settings *s)
{
	autofree char *text = NULL;
	unsigned char key[ED25519_KEY_LEN];
	struct err *e = read_key(s, key);
	autobuf out = { 0 };

	if (e)
		return cli_fail(err_wrap(e, "audit key"));
	text = base64_encode(key, sizeof(key), false);
	buf_printf(&out, "%s\n", text);
	cli_write(&out);
	return EXIT_OK;
}

static const struct cli_verb verb_table[] = {
	{ "show", 0, 0,
	  "[--sandbox NAME] [--agent NAME] [--user NAME] [-n NAMESPACE] [--since TIME]",
	  "Print the records that all of the flags select, the oldest first: who did what, where, and how it ended.",
	  .judge = show_run },
	{ "verify", 0, 0, "[--key FILE]",
	  "Check the whole log: that each record follows the one before, and that the checkpoints are signed by the instance. What was changed,\n"
	  "removed, added, moved or cut off is named with its file and line. The exit status is 0 if there is nothing of the kind, 1 if there is,\n"
	  "and 3 if the log could not be read.",
	  .judge = verify_run },
	{ "export", 0, 0, "[--since TIME]",
	  "Print all files of the log as one, the oldest line first, as they are, checkpoints included.",
	  .judge = export_run },
	{ "key", 0, 0, "",
	  "Print the public key by which the log is verified. Keep a copy where whoever could change the log cannot.",
	  .judge = key_run },
	{ 0 },
};
static const struct cli_verbs verbs = { verb_table, audit_settings, NULL };

bool audit_help(const struct settings *s, struct buf *out)
{
	return cli_verbs_help("audit", s, &verbs, out);
}

int audit_run(const struct command *c, const struct settings *s)
{
	return cli_verbs_run(c, s, &verbs);
}
