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
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/cli.h"
#include "crypto/crypto.h"
#include "json/json.h"

static const char *const formats[] = { "text", "json", NULL };

const struct setting audit_settings[] = {
	{ "data-dir", SETTING_TEXT, "/var/lib/cay", "DIR", "Data directory of the server" },
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
	FILES_MAX = 10000, /* names that are looked for */
	KEY_TEXT_MAX = 256,
	EXIT_UNREADABLE = 3,
};

/* Each line of the log, oldest first. */
struct reader {
	const char *path;
	void (*line)(struct reader *r, const char *file, uint64_t number, const char *p,
		     size_t len);
	uint64_t n_files;
};

static struct err *read_file(struct reader *r, const char *path)
{
	FILE *f = fopen(path, "re");
	autofree char *line = NULL;
	size_t room = 0;
	uint64_t number = 0;
	ssize_t n;

	if (!f)
		return err_sys(errno, "open %s", path);
	r->n_files++;
	while ((n = getline(&line, &room, f)) >= 0) {
		if (n && line[n - 1] == '\n')
			n--;
		r->line(r, path, ++number, line, (size_t)n);
	}
	(void)fclose(f);
	return NULL;
}

static struct err *read_log(struct reader *r)
{
	unsigned oldest = 0;
	struct err *e = NULL;

	while (oldest < FILES_MAX) {
		autofree char *path = xasprintf("%s.%u", r->path, oldest + 1);

		if (!file_exists(AT_FDCWD, path))
			break;
		oldest++;
	}
	for (; !e && oldest; oldest--) {
		autofree char *path = xasprintf("%s.%u", r->path, oldest);

		e = read_file(r, path);
	}
	return e ? e : read_file(r, r->path);
}

static char *log_path(const struct settings *s)
{
	const char *given = settings_text(s, "log");

	return given ? xstrdup(given) : xasprintf("%s/audit.log", settings_text(s, "data-dir"));
}

/* show, export */

struct shown {
	struct reader reader;
	const struct settings *settings;
	bool raw; /* as it is, links of the chain included */
	usec since;
	char *agent; /* ":NAME" at the end of a user; NULL: any */
};

static bool about_sandbox(const struct json *o, const char *name)
{
	static const char *const kinds[] = { "sandboxes", "pods", "sandboxclaims", NULL };

	return str_eq(json_get_str(o, "pod"), name) ||
	       (str_in(json_get_str(o, "resource"), kinds) &&
		str_eq(json_get_str(o, "name"), name));
}

static bool by_agent(const struct shown *w, const struct json *o)
{
	const char *user = str_or(json_get_str(o, "as"), json_get_str(o, "user"));

	return user && str_starts(user, "cay:agent:") && str_ends(user, w->agent);
}

static bool is_wanted(const struct shown *w, const struct json *o)
{
	const struct settings *s = w->settings;
	const char *sandbox = settings_text(s, "sandbox"), *user = settings_text(s, "user");
	const char *ns = settings_text(s, "namespace");
	usec when = 0;

	err_free(clock_parse(str_or(json_get_str(o, "time"), ""), &when));
	if (when < w->since)
		return false;
	if (w->raw)
		return true;
	if (json_get(o, "begin") || json_get(o, "checkpoint"))
		return false;
	return (!sandbox || about_sandbox(o, sandbox)) &&
	       (!user || str_eq(json_get_str(o, "user"), user) ||
		str_eq(json_get_str(o, "as"), user)) &&
	       (!w->agent || by_agent(w, o)) && (!ns || str_eq(json_get_str(o, "namespace"), ns));
}

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

static void on_shown(struct reader *r, const char *file unused, uint64_t number unused,
		     const char *p, size_t len)
{
	struct shown *w = container_of(r, struct shown, reader);
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(p, len, NULL, &d);
	autobuf line = { 0 };

	if (e || !is_wanted(w, json_root(d)))
		return; /* a torn line is for verify */
	if (!w->raw && str_eq(settings_text(w->settings, "output"), "text")) {
		print_row(json_root(d));
		return;
	}
	buf_add(&line, p, len);
	buf_add_char(&line, '\n');
	cli_write(&line);
}

static int show(const struct settings *s, bool raw)
{
	autofree char *path = log_path(s), *agent = NULL;
	struct shown w = { .reader = { .path = path, .line = on_shown },
			   .settings = s,
			   .raw = raw };
	int64_t since_ms = settings_int(s, "since");
	struct err *e;

	if (settings_text(s, "agent"))
		agent = xasprintf(":%s", settings_text(s, "agent"));
	w.agent = agent;
	if (since_ms)
		w.since = clock_wall() - since_ms * 1000;
	e = read_log(&w.reader);
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

struct verified {
	struct reader reader;
	struct chain_check check;
	struct json_doc *report;
	struct json *faults;
};

enum {
	FAULTS_LISTED = 100,
};

static void on_fault(void *arg, const char *file, uint64_t line, const char *what)
{
	struct verified *v = arg;
	struct json *row;

	if (json_len(v->faults) >= FAULTS_LISTED)
		return;
	row = json_obj(v->report);
	json_set_str(v->report, row, "file", file);
	json_set_int(v->report, row, "line", (int64_t)line);
	json_set_str(v->report, row, "fault", what);
	json_push(v->report, v->faults, row);
}

static void on_verified(struct reader *r, const char *file, uint64_t number, const char *p,
			size_t len)
{
	chain_check_line(&container_of(r, struct verified, reader)->check, file, number, p, len);
}

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

/* A head that cannot be read, or that somebody else signed, is a fault of its own. */
static bool read_head(struct verified *v, const char *path, struct chain_head *ret)
{
	autofree char *name = xasprintf("%s.head", path), *text = NULL;
	size_t len = 0;
	autoptr(err) e = file_read(AT_FDCWD, name, KEY_TEXT_MAX * 8, &text, &len);

	if (!e)
		e = chain_head_read(text, len, v->check.key, ret);
	if (!e)
		return true;
	v->check.faults++;
	on_fault(v, name, 1, err_text(e));
	return false;
}

static void print_verified(struct verified *v, const char *path, const char *format)
{
	struct json *root = json_root(v->report);
	autobuf out = { 0 };

	json_set_str(v->report, root, "log", path);
	json_set_int(v->report, root, "files", (int64_t)v->reader.n_files);
	json_set_int(v->report, root, "lines", (int64_t)v->check.lines);
	json_set_int(v->report, root, "checkpoints", (int64_t)v->check.checkpoints);
	json_set_int(v->report, root, "signedUpTo", (int64_t)v->check.signed_n);
	json_set_int(v->report, root, "faults", (int64_t)v->check.faults);
	if (!str_eq(format, "text")) {
		cli_print(root, format);
		return;
	}
	json_each(it, v->faults)
		buf_printf(&out, "%s:%lld: %s\n", json_get_str(it.val, "file"),
			   (long long)json_get_int(it.val, "line", 0),
			   json_get_str(it.val, "fault"));
	if (v->check.faults > FAULTS_LISTED)
		buf_printf(&out, "%llu more are not listed\n",
			   (unsigned long long)v->check.faults - FAULTS_LISTED);
	buf_printf(&out, "%s: %llu lines in %llu files, %llu checkpoints, %llu faults\n", path,
		   (unsigned long long)v->check.lines, (unsigned long long)v->reader.n_files,
		   (unsigned long long)v->check.checkpoints, (unsigned long long)v->check.faults);
	cli_write(&out);
}

static int verify_run(const struct settings *s)
{
	autofree char *path = log_path(s);
	struct verified v = { .reader = { .path = path, .line = on_verified },
			      .report = json_doc_new(),
			      .check = { .fault = on_fault, .arg = &v } };
	unsigned char key[ED25519_KEY_LEN];
	struct chain_head head = { 0 };
	struct err *e = read_key(s, key);

	json_set_root(v.report, json_obj(v.report));
	v.faults = json_need_arr(v.report, json_root(v.report), "findings");
	chain_init(&v.check.at, NULL);
	v.check.key = key;
	if (!e && read_head(&v, path, &head))
		v.check.head = &head;
	if (!e)
		e = read_log(&v.reader);
	if (!e) {
		chain_check_end(&v.check, path);
		print_verified(&v, path, settings_text(s, "output"));
	}
	chain_check_done(&v.check);
	json_doc_free(v.report);
	if (e) {
		(void)cli_fail(err_wrap(e, "audit verify"));
		return EXIT_UNREADABLE;
	}
	return v.check.faults ? EXIT_FAILED : EXIT_OK;
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

int audit_run(const struct command *c unused, const struct settings *s)
{
	static const struct {
		const char *word;
		int (*run)(const struct settings *s);
	} words[] = {
		{ "show", show_run },
		{ "verify", verify_run },
		{ "export", export_run },
		{ "key", key_run },
	};
	const char *word = settings_n_args(s) == 1 ? settings_arg(s, 0) : NULL;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_eq(word, words[i].word))
			return words[i].run(s);
	return cli_fail(err_new(ERR_INVALID, "audit: say one of show, verify, export, key"));
}
