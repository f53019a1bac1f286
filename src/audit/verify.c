/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "audit/chain.h"
#include "audit/reader.h"
#include "audit/reader_priv.h"
#include "base/file.h"
#include "crypto/crypto.h"
#include "json/json.h"

/*
 * All files of a log, the oldest first, through the check of the chain. The files are those that
 * there were when it began, as long as they were.
 */
enum {
	HEAD_MAX = 4096,
};

struct audit_verify {
	char *path;
	struct audit_parts parts;
	size_t part;
	struct audit_scan scan;
	bool scanning;
	struct chain_check check;
	unsigned char key[ED25519_KEY_LEN];
	struct chain_head head;
	uint64_t before; /* bytes of the parts that are done with */
	struct json_doc *report;
	struct buf latest; /* the last line that was read */
	char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
};

static void on_fault(void *arg, const char *file, uint64_t line, const char *what)
{
	struct audit_verify *v = arg;
	struct json *row;

	if (json_len(json_root(v->report)) >= AUDIT_FAULTS_LISTED)
		return;
	row = json_obj(v->report);
	json_set_str(v->report, row, "file", file);
	json_set_int(v->report, row, "line", (int64_t)line);
	json_set_str(v->report, row, "fault", what);
	json_push(v->report, json_root(v->report), row);
}

static void time_of(const char *line, size_t len, char ret[CLOCK_TEXT_MAX])
{
	autoptr(json_doc) d = NULL;
	uint64_t n;

	d = log_line_read(line, len, &n);
	if (d)
		(void)snprintf(ret, CLOCK_TEXT_MAX, "%s",
			       str_or(json_get_str(json_root(d), "time"), ""));
}

static void on_line(void *arg, uint64_t number, const char *p, size_t len)
{
	struct audit_verify *v = arg;

	chain_check_line(&v->check, v->parts.list[v->part].name, number, p, len);
	if (!*v->from)
		time_of(p, len, v->from);
	buf_clear(&v->latest);
	buf_add(&v->latest, p, len);
}

/* A head that cannot be read, or that somebody else signed, is a fault of its own. */
static void read_head(struct audit_verify *v)
{
	autofree char *name = xasprintf("%s.head", v->path), *text = NULL;
	size_t len = 0;
	autoptr(err) e = file_read(AT_FDCWD, name, HEAD_MAX, &text, &len);

	if (!e)
		e = chain_head_read(text, len, v->key, &v->head);
	if (!e) {
		v->check.head = &v->head;
		return;
	}
	v->check.faults++;
	on_fault(v, name, 1, err_text(e));
}

struct err *audit_verify_open(const char *path, const unsigned char *key, struct audit_verify **ret)
{
	autoptr(audit_verify) v = xnew(struct audit_verify);
	struct err *e;

	v->path = xstrdup(path);
	v->report = json_doc_new();
	json_set_root(v->report, json_arr(v->report));
	memcpy(v->key, key, sizeof(v->key));
	chain_init(&v->check.at, NULL);
	v->check.key = v->key;
	v->check.fault = on_fault;
	v->check.arg = v;
	read_head(v); /* before the files: what it says was there then */
	e = audit_parts_open(path, &v->parts);
	if (!e)
		*ret = take(v);
	return e;
}

void audit_verify_free(struct audit_verify *v)
{
	if (!v)
		return;
	audit_scan_done(&v->scan);
	audit_parts_done(&v->parts);
	chain_check_done(&v->check);
	json_doc_free(v->report);
	buf_done(&v->latest);
	free(v->path);
	free(v);
}

static void begin_part(struct audit_verify *v)
{
	const struct audit_part *p = &v->parts.list[v->part];

	v->scan = (struct audit_scan){ .fd = p->fd, .len = p->len, .fn = on_line, .arg = v };
	v->scanning = true;
}

static void end_part(struct audit_verify *v)
{
	audit_scan_done(&v->scan);
	v->scan = (struct audit_scan){ 0 };
	v->scanning = false;
	v->before += v->parts.list[v->part].len;
	v->part++;
}

struct err *audit_verify_step(struct audit_verify *v, size_t max, bool *ret_over)
{
	uint64_t from = v->before + v->scan.at;

	*ret_over = false;
	while (v->part < v->parts.n) {
		uint64_t done = v->before + v->scan.at - from;
		struct err *e;

		if (done >= max)
			return NULL;
		if (!v->scanning)
			begin_part(v);
		e = audit_scan_step(&v->scan, (size_t)(max - done));
		if (e)
			return err_wrap(e, "%s", v->parts.list[v->part].name);
		if (v->scan.at == v->scan.len)
			end_part(v);
	}
	chain_check_end(&v->check, v->path);
	if (v->latest.len)
		time_of(buf_head(&v->latest), v->latest.len, v->to);
	*ret_over = true;
	return NULL;
}

struct audit_verdict audit_verify_verdict(const struct audit_verify *v)
{
	return (struct audit_verdict){
		.files = v->parts.n,
		.lines = v->check.lines,
		.checkpoints = v->check.checkpoints,
		.signed_up_to = v->check.signed_n,
		.faults = v->check.faults,
		.bytes = v->before + v->scan.at,
		.of = v->parts.bytes,
		.from = v->from,
		.to = v->to,
		.findings = json_root(v->report),
	};
}
