/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * Files of a sandbox, by scripts that need nothing but what every shell comes with: cat, mkdir,
 * find and stat, of coreutils or busybox. A relative path begins where commands begin; an absolute
 * one is what it says, as it is for a command.
 */
enum {
	FILE_MAX = 1024 * 1024,
	ERROR_MAX = 2048, /* of what a script says when it fails */
};

#define FORMAT "'%f %s %Y %n'"

static const char upload_script[] =
	"case $1 in */*) p=${1%/*}; [ -z \"$p\" ] || mkdir -p -- \"$p\" || exit 1;; esac\n"
	"if [ -d \"$1\" ]; then echo 'it is a directory' >&2; exit 1; fi\n"
	"exec cat >\"$1\"";
static const char download_script[] =
	"if [ ! -e \"$1\" ]; then echo 'there is no such file' >&2; exit 1; fi\n"
	"if [ ! -f \"$1\" ]; then echo 'it is not a regular file' >&2; exit 1; fi\n"
	"exec cat -- \"$1\"";
static const char exists_script[] = "[ -e \"$1\" ] && echo yes || echo no";
/* What a link leads to is what counts, as long as it leads somewhere. */
static const char list_script[] =
	"if [ ! -d \"$1\" ]; then echo 'it is not a directory' >&2; exit 1; fi\n"
	"cd -- \"$1\" || exit 1\n"
	"find . -mindepth 1 -maxdepth 1 ! -type l -exec stat -c " FORMAT " {} +\n"
	"find . -mindepth 1 -maxdepth 1 -type l -exec sh -c 'for f; do stat -L -c \"$0\" \"$f\" "
	"2>/dev/null || stat -c \"$0\" \"$f\"; done' " FORMAT " {} +";

struct file_call {
	struct rpc *rpc;
	struct run *run;
	struct buf out, error;
	struct entries entries;
	struct err *bad; /* what is wrong with the output */
	size_t written;
	struct json *(*result)(struct file_call *f); /* NULL: bad says why */
};

static void file_free(struct file_call *f)
{
	buf_done(&f->out);
	buf_done(&f->error);
	entries_done(&f->entries);
	err_free(f->bad);
	free(f);
}

static void file_stop(void *work)
{
	struct file_call *f = work;

	run_stop(f->run);
	file_free(f);
}

/* What the script itself said, on one line. */
static struct err *script_error(struct file_call *f, int code)
{
	char *text = buf_steal(&f->error, NULL), *end = text + strlen(text);
	struct err *e;

	while (end > text && end[-1] == '\n')
		*--end = '\0';
	e = *text ? err_new(ERR_UNAVAILABLE, "%s", text)
		  : err_new(ERR_UNAVAILABLE, "exit code %d", code);
	free(text);
	return e;
}

static void on_ended(void *arg, const struct err *e, int code)
{
	struct file_call *f = arg;
	struct rpc *r = f->rpc;
	struct json *result = NULL;
	struct err *failed = take(f->bad);

	if (!failed && e)
		failed = err_copy(e);
	if (!failed && code && !f->entries.total)
		failed = script_error(f, code);
	if (!failed) {
		result = f->result(f);
		failed = take(f->bad);
	}
	file_free(f);
	r->stop = NULL;
	if (failed)
		tool_failed(r, failed, NULL);
	else
		tool_done(r, result);
}

static bool on_output(void *arg, int fd, const char *data, size_t len)
{
	struct file_call *f = arg;

	if (fd == STDERR_FILENO) {
		buf_add(&f->error, data, MIN(len, ERROR_MAX - f->error.len));
		return true;
	}
	if (f->entries.max) {
		f->bad = entries_feed(&f->entries, data, len);
	} else {
		buf_add(&f->out, data, MIN(len, FILE_MAX + 1 - f->out.len));
		if (f->out.len > FILE_MAX)
			f->bad = err_new(ERR_TOO_LARGE,
					 "it is larger than %d bytes; read parts of it with "
					 "execute_command",
					 FILE_MAX);
	}
	return !f->bad;
}

/* Takes f over. */
static void start(struct rpc *r, struct file_call *f, struct run_spec spec)
{
	struct err *e;

	f->rpc = r;
	spec.arg = arg_text(r, "path");
	spec.timeout_ms = (uint64_t)arg_int(r, "timeout");
	spec.output = on_output;
	spec.ended = on_ended;
	spec.owner = f;
	e = run_start(r, &spec, &f->run);
	if (e) {
		file_free(f);
		tool_failed(r, e, NULL);
		return;
	}
	r->work = f;
	r->stop = file_stop;
}

static struct json *uploaded(struct file_call *f)
{
	struct json_doc *d = f->rpc->post->out;
	struct json *o = json_obj(d);

	json_set_int(d, o, "bytes_written", (int64_t)f->written);
	return o;
}

void upload_start(struct rpc *r)
{
	const char *content = arg_text(r, "content");
	autofree void *bytes = NULL;
	struct run_spec spec = { .script = upload_script,
				 .input = content,
				 .input_len = strlen(content) };
	struct file_call *f;

	if (arg_bool(r, "binary")) {
		struct err *e = base64_decode(content, false, &bytes, &spec.input_len);

		if (e) {
			tool_failed(r, err_recode(err_wrap(e, "content"), ERR_INVALID), NULL);
			return;
		}
		spec.input = bytes;
	}
	f = xnew(struct file_call);
	f->written = spec.input_len;
	f->result = uploaded;
	start(r, f, spec);
}

static struct json *downloaded(struct file_call *f)
{
	struct json_doc *d = f->rpc->post->out;
	const char *data = buf_str(&f->out);
	size_t len = f->out.len;
	struct json *o;

	if (arg_bool(f->rpc, "binary")) {
		autofree char *text = base64_encode(data, len, false);

		o = json_obj(d);
		json_set_str(d, o, "content", text);
	} else if (utf8_valid(data, len) && !memchr(data, '\0', len)) {
		o = json_obj(d);
		json_set(d, o, "content", json_new_strn(d, data, len));
	} else {
		f->rpc->plain = true;
		f->bad = err_new(ERR_MALFORMED,
				 "File at '%s' contains non-UTF-8 bytes. Set binary=True to "
				 "retrieve it as base64.",
				 arg_text(f->rpc, "path"));
		return NULL;
	}
	json_set_int(d, o, "bytes_read", (int64_t)len);
	return o;
}

void download_start(struct rpc *r)
{
	struct file_call *f = xnew(struct file_call);

	f->result = downloaded;
	start(r, f, (struct run_spec){ .script = download_script });
}

static struct json *checked(struct file_call *f)
{
	struct json_doc *d = f->rpc->post->out;
	const char *said = buf_str(&f->out);
	struct json *o;

	if (!str_eq(said, "yes\n") && !str_eq(said, "no\n")) {
		f->bad = err_new(ERR_MALFORMED, "the sandbox gave no answer");
		return NULL;
	}
	o = json_obj(d);
	json_set_bool(d, o, "exists", str_eq(said, "yes\n"));
	return o;
}

void exists_start(struct rpc *r)
{
	struct file_call *f = xnew(struct file_call);

	f->result = checked;
	start(r, f, (struct run_spec){ .script = exists_script });
}

static struct json *listed(struct file_call *f)
{
	struct json_doc *d = f->rpc->post->out;
	struct json *o, *list;

	f->bad = entries_end(&f->entries);
	if (f->bad)
		return NULL;
	o = json_obj(d);
	list = json_need_arr(d, o, "entries");
	for (size_t i = 0; i < f->entries.n; i++) {
		const struct entry *e = &f->entries.list[i];
		struct json *row = json_obj(d);

		json_set_str(d, row, "name", e->name);
		json_set_int(d, row, "size", e->size);
		json_set_str(d, row, "type", e->directory ? "directory" : "file");
		json_set_int(d, row, "mod_time", e->mtime);
		json_push(d, list, row);
	}
	json_set_int(d, o, "total_entries", (int64_t)f->entries.total);
	json_set_bool(d, o, "truncated", f->entries.total > f->entries.n);
	return o;
}

void list_start(struct rpc *r)
{
	struct file_call *f = xnew(struct file_call);

	f->entries.max = (size_t)arg_int(r, "max_entries");
	f->result = listed;
	start(r, f, (struct run_spec){ .script = list_script });
}
