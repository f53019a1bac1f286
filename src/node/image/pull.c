/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/image/image_priv.h"

/*
 * Images from registries. skopeo speaks to them: it knows their protocols, credentials, mirrors and
 * proxies. It writes an OCI layout into a work directory, which is imported as any other is, so
 * that what it brings is trusted no more than an archive.
 *
 *   images/.import-<random>/pull   the layout
 *   images/.import-<random>/said   what skopeo wrote to standard error
 *
 * Credentials are in a file that skopeo reads itself. They are never an argument, which every user
 * of the machine could see.
 */
enum {
	ARGS_MAX = 24,
	SAID_MAX = 64 * 1024,
	TICK_MS = 200,
};

struct fetch {
	const struct image_pull *pull;
	char *work;
	int work_fd, status, signum;
	struct loop *loop;
	struct timer *tick;
	struct child *child;
	const char *argv[ARGS_MAX];
	size_t n_args;
};

static void add_arg(struct fetch *f, const char *arg)
{
	if (arg && f->n_args + 1 < ARGS_MAX)
		f->argv[f->n_args++] = arg;
}

static void add_option(struct fetch *f, const char *option, const char *value)
{
	if (!value)
		return;
	add_arg(f, option);
	add_arg(f, value);
}

/* Whether the registry is on this machine, where nobody listens in. */
static bool on_loopback(const char *key)
{
	size_t len = strcspn(key, "/");
	autofree char *host = xstrndup(key, len);
	char *colon = strrchr(host, ':');
	struct in_addr ip;

	if (colon)
		*colon = '\0';
	return str_eq(host, "localhost") ||
	       (inet_pton(AF_INET, host, &ip) == 1 && ntohl(ip.s_addr) >> 24 == 127);
}

static void on_exit_of_skopeo(void *arg, int status, int signum)
{
	struct fetch *f = arg;

	f->child = NULL;
	f->status = status;
	f->signum = signum;
	loop_stop(f->loop);
}

static void on_tick(void *arg)
{
	struct fetch *f = arg;
	const struct image_progress *p = f->pull->progress;

	p->report(p->arg, "pulling",
		  work_bytes(f->work_fd, "pull") + work_bytes(f->work_fd, "pull/blobs/sha256"));
	timer_set(f->tick, TICK_MS);
}

/* The message of its last line: time="..." level=fatal msg="...". */
static struct err *what_it_said(struct fetch *f)
{
	autofree char *text = NULL;
	struct err *e = file_read(f->work_fd, "said", SAID_MAX, &text, NULL);
	char *msg, *end;

	if (e)
		return e;
	for (size_t n = strlen(text); n && text[n - 1] == '\n'; n--)
		text[n - 1] = '\0';
	msg = strrchr(text, '\n');
	msg = msg ? msg + 1 : text;
	end = strstr(msg, "msg=\"");
	if (end) {
		msg = end + strlen("msg=\"");
		end = strrchr(msg, '"');
		if (end)
			*end = '\0';
	}
	if (f->status == CHILD_NO_PROGRAM)
		return err_new(ERR_UNAVAILABLE,
			       "pulling needs skopeo, which is not installed; install the package "
			       "skopeo, or use cay image import");
	if (f->signum)
		return err_new(ERR_UNAVAILABLE, "skopeo was killed by signal %d", f->signum);
	return err_new(ERR_UNAVAILABLE, "%s", str_or(msg, "skopeo failed and said nothing"));
}

static struct err *spawn(struct fetch *f)
{
	autoclose said = openat(f->work_fd, "said", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	const int fds[] = { -1, -1, said };
	const struct child_spec spec = {
		.argv = f->argv, .fds = fds, .n_fds = ARRAY_LEN(fds), .cwd = f->work, .tied = true
	};

	if (said < 0)
		return err_sys(errno, "create a file for skopeo's messages");
	return child_spawn(f->loop, &spec, on_exit_of_skopeo, f, &f->child);
}

/* Whoever ends us does not know of skopeo. */
static void on_signal(void *arg, int signum)
{
	struct fetch *f = arg;

	if (f->child)
		child_kill(f->child, signum);
}

static struct err *fetch(struct fetch *f)
{
	static const int signums[] = { SIGINT, SIGTERM, SIGHUP };
	struct signal_watch *watches[ARRAY_LEN(signums)];
	struct err *e = spawn(f);

	if (e)
		return e;
	for (size_t i = 0; i < ARRAY_LEN(signums); i++)
		watches[i] = signal_watch_new(f->loop, signums[i], on_signal, f);
	if (f->pull->progress) {
		f->tick = timer_new(f->loop, on_tick, f);
		timer_set(f->tick, TICK_MS);
	}
	loop_run(f->loop);
	timer_free(take(f->tick));
	for (size_t i = 0; i < ARRAY_LEN(signums); i++)
		signal_watch_free(watches[i]);
	return f->status || f->signum ? what_it_said(f) : NULL;
}

/* Signatures are not looked at: a policy for them is the machine's, and most have none. */
static void make_args(struct fetch *f, const char *key, const char *source)
{
	add_arg(f, "skopeo");
	add_arg(f, "--insecure-policy");
	add_option(f, "--command-timeout", "2h");
	add_option(f, "--tmpdir", f->work);
	add_option(f, "--registries-conf", f->pull->registries_conf);
	add_arg(f, "copy");
	add_arg(f, "--quiet");
	add_option(f, "--src-authfile", f->pull->authfile);
	if (on_loopback(key))
		add_arg(f, "--src-tls-verify=false");
	add_arg(f, source);
	add_arg(f, "oci:pull:image"); /* relative: a path with a colon would be misread */
}

static struct err *begin(struct fetch *f)
{
	autoclose lock = -1;
	struct err *e = names_lock(f->pull->data_dir, &lock);

	if (!e)
		e = work_new(f->pull->data_dir, &f->work, &f->work_fd);
	return e ? e : loop_new(&f->loop);
}

/* A file that the caller names is found from where the caller is, not from where skopeo runs. */
static struct err *absolute(const char *path, char **ret)
{
	if (!path)
		return NULL;
	*ret = realpath(path, NULL);
	return *ret ? NULL : err_sys(errno, "open %s", path);
}

static struct err *check_name(const char *name, char **ret_key)
{
	autofree char *digest = NULL, *canonical = image_canonical(name, &digest);

	if (!canonical || (digest && !digest_valid(digest)))
		return bad_name(name);
	if (names_id(NULL, canonical))
		return err_new(ERR_INVALID, "%s is a built-in image; it is there already", name);
	*ret_key = name_key(name);
	return NULL;
}

struct err *image_pull(const struct image_pull *pull, struct json_doc **ret)
{
	autofree char *key = NULL, *source = NULL, *layout = NULL, *auth = NULL, *conf = NULL;
	struct image_pull exact = *pull;
	struct fetch f = { .pull = &exact, .work_fd = -1 };
	struct err *e = check_name(pull->name, &key);

	if (!e)
		e = absolute(pull->authfile, &auth);
	if (!e)
		e = absolute(pull->registries_conf, &conf);
	if (!e)
		e = begin(&f);
	if (e)
		return err_wrap(e, "pull %s", pull->name);
	exact.authfile = auth;
	exact.registries_conf = conf;
	source = xasprintf("docker://%s", key);
	layout = xasprintf("%s/pull", f.work);
	make_args(&f, key, source);
	e = fetch(&f);
	if (!e)
		e = import_pulled(&exact, layout, source, ret);
	err_free(file_remove_tree(AT_FDCWD, f.work)); /* or the next command does it */
	loop_free(f.loop);
	auto_close_(&f.work_fd);
	free(f.work);
	return err_wrap(e, "pull %s", pull->name);
}
