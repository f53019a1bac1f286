/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay cp`: files and directories into a sandbox and out of it, through `tar` in the sandbox. The
 * archive is made and read here as it is sent; nothing is kept. A sandbox without tar can send and
 * get single files through `cat`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/sandbox/cp_priv.h"
#include "cli/sandbox/pack_priv.h"
#include "cli/sandbox/sandbox_priv.h"

enum {
	ERRORS_MAX = 2048, /* of what the program in the sandbox says */
	CHUNK = 64 * 1024,
};

const struct setting cp_settings[] = {
	{ "recursive", SETTING_BOOL, "false", NULL, "Copy directories, too", .letter = 'r' },
	{ "container", SETTING_TEXT, NULL, "NAME", "Container, of several", .letter = 'c' },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

struct copy {
	struct remote *r;
	const struct settings *s;
	struct place from, to;
	struct named target;
	struct session *session;
	struct term_progress progress;
	unsigned long long bytes;
	struct buf errors; /* of the program in the sandbox */
	/* In: what is sent. */
	struct pack *pack;
	int file; /* instead of pack: a file, as it is; -1: none */
	bool more;
	/* Out: where it goes. */
	struct unpack *unpack;
	struct tar_reader *tar; /* NULL: the data of one file, as it is */
	struct err *e;
	int code;
	bool over;
};

static void copy_end(struct copy *c, struct err *e, int code)
{
	if (c->over) {
		err_free(e);
		return;
	}
	c->over = true;
	c->e = e;
	c->code = code;
}

static void on_ended(void *arg, struct err *e, int code)
{
	copy_end(arg, e, code);
}

static void moved(struct copy *c, size_t len)
{
	c->bytes += len;
	term_progress_bytes(&c->progress, c->from.path, c->bytes);
}

static void keep_errors(struct copy *c, const char *p, size_t len)
{
	buf_add(&c->errors, p, MIN(len, ERRORS_MAX - c->errors.len));
}

/* Runs argv with the events until it ends. *ret_code is the program's. */
static struct err *copy_run(struct copy *c, const char *const *argv,
			    const struct session_events *ev, int *ret_code)
{
	struct session_spec spec = {
		.ns = c->target.ns,
		.pod = c->target.pod,
		.container = settings_text(c->s, "container"),
		.argv = argv,
		.in = ev->drained != NULL,
	};
	struct err *e;

	c->over = false;
	buf_clear(&c->errors);
	c->session = session_start(c->r, &spec, ev, c);
	e = remote_until(c->r, &c->over, 0);
	session_free(take(c->session));
	if (!e)
		e = take(c->e);
	err_free(take(c->e));
	*ret_code = c->code;
	return e;
}

/* What the program in the sandbox says of its failure, in one line. */
static struct err *program_failed(struct copy *c, const char *program, int code)
{
	char *text = (char *)buf_str(&c->errors);

	while (c->errors.len && text[c->errors.len - 1] == '\n')
		text[--c->errors.len] = 0;
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = ';';
	return err_new(ERR_UNAVAILABLE, "%s in the sandbox: %s (exit status %d)", program,
		       str_or(text, "no message"), code);
}

/* Out of the sandbox */

/* What is wrong with what a sandbox sends is no mistake of the command line. */
static struct err *from_sandbox(struct err *e)
{
	return err_is(e, ERR_INVALID) ? err_recode(e, ERR_MALFORMED) : e;
}

static void on_archive(void *arg, int fd, const char *p, size_t len)
{
	struct copy *c = arg;
	struct err *e;

	if (fd == STDERR_FILENO) {
		keep_errors(c, p, len);
		return;
	}
	moved(c, len);
	e = c->tar ? from_sandbox(tar_feed(c->tar, p, len)) : unpack_events.data(c->unpack, p, len);
	if (e)
		copy_end(c, e, 0);
}

static const struct session_events out_events = { .output = on_archive, .ended = on_ended };

static struct err *out_by_tar(struct copy *c, const char *dir, const char *base)
{
	autofree char *member = xasprintf("./%s", base);
	const char *const argv[] = { "tar", "-cf", "-", "-C", dir, member, NULL };
	autoptr(tar_reader) tar = tar_reader_new(&unpack_events, c->unpack);
	struct err *e;
	int code = 0;

	c->tar = tar;
	e = copy_run(c, argv, &out_events, &code);
	c->tar = NULL;
	if (!e && code)
		e = program_failed(c, "tar", code);
	if (!e)
		e = from_sandbox(tar_finish(tar));
	return e;
}

static struct err *out_by_cat(struct copy *c, const char *base)
{
	const char *const argv[] = { "cat", c->from.path, NULL };
	struct tar_entry entry = { .type = TAR_FILE,
				   .path = base,
				   .link = "",
				   .mode = 0666,
				   .mtime = clock_wall() / 1000000 };
	struct err *e = unpack_events.entry(c->unpack, &entry);
	int code = 0;

	if (!e)
		e = copy_run(c, argv, &out_events, &code);
	if (!e && code)
		e = program_failed(c, "cat", code);
	return e ? e : unpack_events.end(c->unpack);
}

/* Where it goes: into a directory that exists, or under the name that was given. */
static struct err *open_destination(struct copy *c, const char *base)
{
	struct unpack_spec spec = { .dir = c->to.path,
				    .from = base,
				    .name = base,
				    .recursive = settings_bool(c->s, "recursive") };
	autofree char *dir = NULL, *name = NULL;
	struct stat st;

	if (stat(c->to.path, &st) == 0 && S_ISDIR(st.st_mode))
		return unpack_open(&spec, &c->unpack);
	if (str_ends(c->to.path, "/"))
		return err_new(ERR_NOT_FOUND, "there is no directory %s", c->to.path);
	if (str_eq(base, ".")) {
		if (mkdir(c->to.path, 0777) < 0)
			return err_sys(errno, "make directory %s", c->to.path);
		return unpack_open(&spec, &c->unpack);
	}
	place_split(c->to.path, &dir, &name);
	spec.dir = dir;
	spec.name = name;
	return unpack_open(&spec, &c->unpack);
}

static struct err *copy_out(struct copy *c)
{
	autofree char *dir = NULL, *base = NULL;
	size_t n_refused;
	struct err *e;

	place_split(c->from.path, &dir, &base);
	e = open_destination(c, base);
	if (e)
		return e;
	e = out_by_tar(c, dir, base);
	if (err_is(e, ERR_UNSUPPORTED) && !settings_bool(c->s, "recursive") &&
	    !unpack_n_entries(c->unpack)) {
		err_free(e);
		e = out_by_cat(c, base);
	}
	n_refused = unpack_n_refused(c->unpack);
	if (!e && n_refused)
		e = err_new(ERR_FORBIDDEN, "%zu of %zu entries were left out", n_refused,
			    unpack_n_entries(c->unpack));
	return e;
}

/* Into the sandbox */

static struct err *read_more(struct copy *c, struct buf *out)
{
	ssize_t n;

	if (c->pack)
		return pack_next(c->pack, out, &c->more);
	n = read(c->file, buf_reserve(out, CHUNK), CHUNK);
	if (n < 0)
		return err_sys(errno, "read %s", c->from.path);
	buf_wrote(out, (size_t)n);
	c->more = n > 0;
	return NULL;
}

static void on_drained(void *arg)
{
	struct copy *c = arg;

	while (c->more && !c->over && !session_full(c->session)) {
		autobuf out = { 0 };
		struct err *e = read_more(c, &out);

		if (e) {
			copy_end(c, e, 0);
			return;
		}
		if (out.len)
			session_write(c->session, buf_head(&out), out.len);
		moved(c, out.len);
		if (!c->more)
			session_end_input(c->session);
	}
}

static void on_said(void *arg, int fd unused, const char *p, size_t len)
{
	keep_errors(arg, p, len);
}

static const struct session_events in_events = { on_said, on_drained, on_ended };

static struct err *in_by_tar(struct copy *c, const char *dir)
{
	const char *const argv[] = { "tar", "-xof", "-", "-C", dir, NULL };
	int code = 0;
	struct err *e;

	c->more = true;
	e = copy_run(c, argv, &in_events, &code);
	return !e && code ? program_failed(c, "tar", code) : e;
}

static struct err *in_by_cat(struct copy *c, const char *dir, const char *base)
{
	autofree char *path = xasprintf("%s/%s", dir, base);
	struct stat st;
	char mode[8];
	const char *const argv[] = { "sh", "-c", "cat >\"$1\" && chmod \"$2\" \"$1\"", "sh", path,
				     mode, NULL };
	int code = 0;
	struct err *e;

	c->file = open(c->from.path, O_RDONLY | O_CLOEXEC);
	if (c->file < 0 || fstat(c->file, &st) < 0)
		return err_sys(errno, "open %s", c->from.path);
	(void)snprintf(mode, sizeof(mode), "%o", (unsigned)st.st_mode & 0777);
	c->more = true;
	pack_free(take(c->pack));
	e = copy_run(c, argv, &in_events, &code);
	return !e && code ? program_failed(c, "cat", code) : e;
}

/* Without a shell we cannot know, and take the path for that of a file. */
static struct err *is_directory(struct copy *c, bool *ret)
{
	const char *const argv[] = { "sh", "-c", "test -d \"$1\"", "sh", c->to.path, NULL };
	struct session_spec spec = {
		.ns = c->target.ns,
		.pod = c->target.pod,
		.container = settings_text(c->s, "container"),
		.argv = argv,
	};
	int code = 1;
	struct err *e = session_run(c->r, &spec, &code, NULL, NULL);

	if (err_is(e, ERR_UNSUPPORTED))
		err_free(take(e));
	*ret = !e && !code;
	return e;
}

static struct err *copy_in(struct copy *c)
{
	autofree char *our_dir = NULL, *our_base = NULL, *dir = NULL, *base = NULL;
	bool there = false;
	struct err *e = is_directory(c, &there);

	if (e)
		return e;
	place_split(c->from.path, &our_dir, &our_base);
	if (there) {
		dir = xstrdup(c->to.path);
		base = xstrdup(our_base);
	} else if (str_ends(c->to.path, "/")) {
		return err_new(ERR_NOT_FOUND, "there is no directory %s in the sandbox",
			       c->to.path);
	} else {
		place_split(c->to.path, &dir, &base);
	}
	e = pack_open(c->from.path, base, settings_bool(c->s, "recursive"), &c->pack);
	if (!e)
		e = in_by_tar(c, dir);
	if (err_is(e, ERR_UNSUPPORTED) && !settings_bool(c->s, "recursive")) {
		err_free(e);
		e = in_by_cat(c, dir, base);
	}
	return e;
}

/* Both */

static struct err *read_places(struct copy *c)
{
	struct err *e;

	if (settings_n_args(c->s) != 2)
		return err_new(ERR_INVALID,
			       "it needs two paths: cay cp NAME:PATH PATH, or cay cp PATH "
			       "NAME:PATH");
	e = place_parse(settings_arg(c->s, 0), &c->from);
	if (!e)
		e = place_parse(settings_arg(c->s, 1), &c->to);
	if (!e && !c->from.name == !c->to.name)
		e = err_new(ERR_INVALID,
			    c->from.name ? "one of the paths must be on this machine"
					 : "one of the paths must be NAME:PATH, of a sandbox");
	return e;
}

static struct err *copy_all(struct copy *c)
{
	struct err *e = read_places(c);

	if (!e)
		e = remote_open(c->s, &c->r);
	if (!e)
		e = named_find(c->r, c->from.name ? c->from.name : c->to.name, &c->target);
	if (e)
		return e;
	remote_catch(c->r);
	term_progress_start(&c->progress);
	e = c->from.name ? copy_out(c) : copy_in(c);
	term_progress_end(&c->progress);
	if (err_is(e, ERR_UNSUPPORTED) && settings_bool(c->s, "recursive"))
		e = err_wrap(
			e, "the sandbox has no tar, without which only single files can be copied");
	if (err_is(e, ERR_NOT_FOUND) || err_is(e, ERR_UNAVAILABLE))
		e = named_trouble(c->r, &c->target, e);
	return e;
}

static void copy_print(const struct copy *c, const char *format)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);

	if (str_eq(format, "text"))
		return; /* as cp: no news is good news */
	json_set_root(d, o);
	json_set_str(d, o, "sandbox", c->target.sandbox);
	json_set_str(d, o, "from", c->from.path);
	json_set_str(d, o, "to", c->to.path);
	json_set_int(d, o, "bytes", (int64_t)c->bytes);
	cli_print(o, format);
}

int cp_run(const struct command *cmd unused, const struct settings *s)
{
	struct copy c = { .s = s, .file = -1 };
	struct err *e = copy_all(&c);
	int code = EXIT_OK;

	if (!e)
		copy_print(&c, settings_text(s, "output"));
	else if (err_is(e, ERR_CANCELED) && c.r && remote_signal(c.r))
		code = EXIT_SIGNALED + remote_signal(c.r);
	else
		code = cli_fail(err_wrap(take(e), "cp"));
	err_free(e);
	pack_free(c.pack);
	unpack_free(c.unpack);
	if (c.file >= 0)
		(void)close(c.file);
	buf_done(&c.errors);
	named_done(&c.target);
	place_done(&c.from);
	place_done(&c.to);
	remote_free(c.r);
	return code;
}
