/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/image/image_priv.h"

/*
 * Pulls by the node. Each is a child process that runs `cay image pull`: the daemon neither speaks
 * to a registry nor unpacks what comes from there. Who asks for the same image with the same
 * credentials shares a pull; a few run at a time, the others wait their turn. One that nobody waits
 * for any more is ended, so that it does not hold up the others.
 *
 * Credentials are a file in the run directory, which is in memory, for as long as the child runs.
 */
enum {
	AT_A_TIME = 3,
	SAID_MAX = 64 * 1024,
};
#define AUTH_PREFIX ".auth-"

struct pull {
	struct list on; /* image_pulls.all */
	struct list waits;
	struct image_pulls *of;
	struct child *child; /* NULL: it waits for its turn */
	char *name, *auth, *authfile;
	int said;
	bool unwanted; /* the child was told to end, and nobody may join any more */
};

struct image_pulls {
	struct image_pulls_spec spec;
	char *data_dir, *run_dir;
	struct list all;
	unsigned n_running;
	bool stopping;
};

static void sweep(const char *run_dir)
{
	DIR *d = opendir(run_dir);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (str_starts(de->d_name, AUTH_PREFIX))
			(void)unlinkat(dirfd(d), de->d_name, 0); /* of a daemon that was killed */
	if (d)
		(void)closedir(d);
}

struct image_pulls *image_pulls_new(const struct image_pulls_spec *spec)
{
	struct image_pulls *p = xnew(struct image_pulls);

	p->spec = *spec;
	p->data_dir = xstrdup(spec->data_dir);
	p->run_dir = xstrdup(spec->run_dir);
	list_init(&p->all);
	sweep(p->run_dir);
	return p;
}

static void pull_free(struct pull *u)
{
	list_del(&u->on);
	if (u->authfile)
		(void)unlink(u->authfile);
	auto_close_(&u->said);
	free(u->name);
	free(u->auth);
	free(u->authfile);
	free(u);
}

/* What the child said, without the words about what it was doing: the caller knows. */
static struct err *failure(const struct pull *u, int signum)
{
	autofree char *text = xmalloc(SAID_MAX), *doing = xasprintf("pull %s: ", u->name);
	ssize_t n = pread(u->said, text, SAID_MAX - 1, 0);
	const char *why;

	text[MAX(n, (ssize_t)0)] = '\0';
	text[strcspn(text, "\n")] = '\0';
	why = strstr(text, doing);
	if (signum)
		return err_new(ERR_UNAVAILABLE, "the pull was killed by signal %d", signum);
	return err_new(ERR_UNAVAILABLE, "%s",
		       str_or(why ? why + strlen(doing) : text, "the pull failed"));
}

static void start_next(struct image_pulls *p);

/* Takes e over. Those who wait may ask again at once. */
static void tell(struct pull *u, struct err *e)
{
	struct list waits;

	list_init(&waits);
	while (!list_empty(&u->waits)) {
		struct image_pull_wait *w = list_first(&u->waits, struct image_pull_wait, on);

		list_del(&w->on);
		w->pull = NULL;
		list_add_tail(&waits, &w->on);
	}
	pull_free(u);
	while (!list_empty(&waits)) {
		struct image_pull_wait *w = list_first(&waits, struct image_pull_wait, on);

		list_del(&w->on);
		w->done(w, e);
	}
	err_free(e);
}

static void on_exited(void *arg, int status, int signum)
{
	struct pull *u = arg;
	struct image_pulls *p = u->of;
	struct err *e = status || signum ? failure(u, signum) : NULL;

	u->child = NULL;
	p->n_running--;
	if (p->stopping) {
		err_free(e);
		pull_free(u);
		return;
	}
	if (!e)
		p->spec.pulled(p->spec.arg);
	tell(u, e);
	start_next(p);
}

static struct err *write_auth(struct pull *u)
{
	autoclose fd = -1;
	char tag[17];

	/* An empty one too: without any, skopeo would take those of this machine's root. */
	const char *auth = u->auth ? u->auth : "{}";

	random_hex(tag, sizeof(tag) - 1);
	u->authfile = xasprintf("%s/" AUTH_PREFIX "%s", u->of->run_dir, tag);
	fd = open(u->authfile, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(errno, "create a file for credentials")
		      : fd_write_all(fd, auth, strlen(auth));
}

/* Where skopeo would look for more credentials than it is given. */
static bool names_credentials(const char *variable)
{
	static const char *const names[] = { "HOME=", "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=",
					     "DOCKER_CONFIG=", "REGISTRY_AUTH_FILE=" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_starts(variable, names[i]))
			return true;
	return false;
}

/* Ours, with a home that has nothing. home is the last string of it, and the caller's. */
static const char **make_env(const char *home)
{
	size_t n = 0;
	const char **env;

	while (environ[n])
		n++;
	env = xnew_n(const char *, n + 2);
	n = 0;
	for (char **p = environ; *p; p++)
		if (!names_credentials(*p))
			env[n++] = *p;
	env[n] = home;
	return env;
}

static struct err *start(struct pull *u)
{
	autofree char *home = xasprintf("HOME=%s", u->of->run_dir);
	autofree const char **env = make_env(home);
	const char *argv[] = { "/proc/self/exe", "image", "pull", "--data-dir", u->of->data_dir,
			       "--authfile",     NULL,    "--",   u->name,      NULL };
	int fds[] = { -1, -1, -1 };
	const struct child_spec spec = {
		.argv = argv, .env = env, .fds = fds, .n_fds = ARRAY_LEN(fds), .tied = true
	};
	struct err *e = write_auth(u);

	if (e)
		return e;
	argv[6] = u->authfile;
	u->said = memfd_create("cay-pull", MFD_CLOEXEC);
	if (u->said < 0)
		return err_sys(errno, "create a memory file");
	fds[2] = u->said;
	return child_spawn(u->of->spec.loop, &spec, on_exited, u, &u->child);
}

static struct pull *next(const struct image_pulls *p)
{
	struct pull *u;

	list_each(u, &p->all, on)
		if (!u->child)
			return u;
	return NULL;
}

static void start_next(struct image_pulls *p)
{
	struct pull *u;

	while (p->n_running < AT_A_TIME && (u = next(p))) {
		struct err *e = start(u);

		if (e)
			tell(u, e);
		else
			p->n_running++;
	}
}

static struct pull *find(const struct image_pulls *p, const char *name, const char *auth)
{
	struct pull *u;

	list_each(u, &p->all, on)
		if (!u->unwanted && str_eq(u->name, name) && str_eq(u->auth, auth))
			return u;
	return NULL;
}

void image_pulls_ask(struct image_pulls *p, const char *name, const char *auth,
		     struct image_pull_wait *w)
{
	struct pull *u = find(p, name, auth);

	if (!u) {
		u = xnew(struct pull);
		u->of = p;
		u->name = xstrdup(name);
		u->auth = xstrdup(auth);
		u->said = -1;
		list_init(&u->waits);
		list_add_tail(&p->all, &u->on);
	}
	w->pull = u;
	list_add_tail(&u->waits, &w->on);
	start_next(p);
}

/* A child keeps its place until it has ended. */
static void end(struct pull *u)
{
	if (!u->child) {
		pull_free(u);
		return;
	}
	u->unwanted = true;
	child_kill(u->child, SIGTERM); /* it ends its skopeo first */
}

void image_pull_leave(struct image_pull_wait *w)
{
	struct pull *u = take(w->pull);

	list_del(&w->on);
	if (u && list_empty(&u->waits))
		end(u);
}

/* Nobody is told any more. */
static void let_go(struct pull *u)
{
	while (!list_empty(&u->waits)) {
		struct image_pull_wait *w = list_first(&u->waits, struct image_pull_wait, on);

		list_del(&w->on);
		w->pull = NULL;
	}
	end(u);
}

void image_pulls_free(struct image_pulls *p)
{
	struct pull *u, *after;

	if (!p)
		return;
	p->stopping = true;
	list_each_safe(u, after, &p->all, on)
		let_go(u);
	while (p->n_running)
		(void)loop_turn(p->spec.loop, 100);
	free(p->data_dir);
	free(p->run_dir);
	free(p);
}
