/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/image/build_priv.h"

/*
 * The packages of a build. apt-get finds out what they depend on, as if nothing was installed yet:
 * its state, caches and locks are in the work directory, and nothing of this machine changes.
 *
 *   from the machine's apt sources  apt-get --download-only, which verifies what it fetches
 *   from a directory                apt-get --print-uris, which is told of no source but these
 * files
 */
enum {
	SAID_MAX = 4 << 20,
	DEBS_MAX = 4096,
	TICK_MS = 200,
};

struct words {
	char **at; /* owned, NULL-terminated */
	size_t n;
};

static void words_add(struct words *w, char *word)
{
	w->at = xrealloc(w->at, (w->n + 2) * sizeof(*w->at));
	w->at[w->n++] = word;
	w->at[w->n] = NULL;
}

static void words_done(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->at[i]);
	free(w->at);
}
#define autowords __attribute__((cleanup(words_done))) struct words

static void add_option(struct words *w, char *option)
{
	words_add(w, xstrdup("-o"));
	words_add(w, option);
}

/* Directories of apt's own, without a package in them. */
static struct err *make_state(const struct build *b)
{
	static const char *const dirs[] = { "archives/partial", "cache", "lists/partial" };
	autofree char *status = xasprintf("%s/apt/status", b->work);
	struct err *e = NULL;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && !e; i++) {
		autofree char *path = xasprintf("%s/apt/%s", b->work, dirs[i]);

		e = file_mkdirs(path, 0700);
	}
	return e ? e : file_write_atomic(AT_FDCWD, status, "", 0, 0600);
}

/* _apt, as whom apt would fetch, cannot reach the work directory; what it fetches is signed. */
static void add_state(const struct build *b, struct words *w)
{
	add_option(w, xasprintf("Dir::State::status=%s/apt/status", b->work));
	add_option(w, xasprintf("Dir::State::extended_states=%s/apt/extended", b->work));
	add_option(w, xasprintf("Dir::Cache=%s/apt/cache", b->work));
	add_option(w, xasprintf("Dir::Cache::archives=%s/apt/archives", b->work));
	add_option(w, xstrdup("Debug::NoLocking=1"));
	add_option(w, xstrdup("APT::Sandbox::User=root"));
	add_option(w, xstrdup("APT::Install-Suggests=0"));
	if (json_get_str(b->spec->recipe, "suite"))
		add_option(w, xasprintf("APT::Default-Release=%s",
					json_get_str(b->spec->recipe, "suite")));
}

static int is_deb(const struct dirent *d)
{
	return str_ends(d->d_name, ".deb") && d->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static struct err *list_debs(const char *dir, struct words *ret)
{
	struct dirent **list = NULL;
	int n = scandir(dir, &list, is_deb, by_name);

	if (n < 0)
		return err_sys(errno, "list directory %s", dir);
	for (int i = 0; i < n; i++) {
		if (i < DEBS_MAX)
			words_add(ret, xasprintf("%s/%s", dir, list[i]->d_name));
		free(list[i]);
	}
	free(list);
	return n > DEBS_MAX ? err_new(ERR_EXHAUSTED, "directory %s has more than %d packages", dir,
				      DEBS_MAX)
			    : NULL;
}

/* No source of this machine counts, only the files. */
static struct err *add_files(const struct build *b, struct words *w)
{
	autofree char *dir = realpath(b->spec->debs, NULL);
	autowords debs = { 0 };
	struct err *e =
		dir ? list_debs(dir, &debs) : err_sys(errno, "open directory %s", b->spec->debs);

	if (!e && !debs.n)
		e = err_new(ERR_INVALID, "there are no .deb files in %s", dir);
	if (e)
		return e;
	add_option(w, xstrdup("Dir::Etc::sourcelist=/dev/null"));
	add_option(w, xstrdup("Dir::Etc::sourceparts=/dev/null"));
	add_option(w, xasprintf("Dir::State::lists=%s/apt/lists", b->work));
	words_add(w, xstrdup("--print-uris"));
	for (size_t i = 0; i < debs.n; i++) {
		words_add(w, xstrdup("--with-source"));
		words_add(w, xstrdup(debs.at[i]));
	}
	return NULL;
}

static struct err *make_args(const struct build *b, struct words *w)
{
	static const char *const first[] = { "apt-get", "-q", "-y", "--no-install-recommends",
					     "--download-only" };
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		words_add(w, xstrdup(first[i]));
	add_state(b, w);
	e = b->spec->debs ? add_files(b, w) : NULL;
	if (e)
		return e;
	words_add(w, xstrdup("install"));
	words_add(w, xstrdup("--"));
	json_each(it, json_get(b->spec->recipe, "packages"))
		words_add(w, xstrdup(json_str(it.val)));
	return NULL;
}

/* Ours, but what apt-get says is read by a program. */
static void make_env(struct words *w)
{
	for (char **p = environ; *p; p++)
		if (!str_starts(*p, "LC_") && !str_starts(*p, "LANG"))
			words_add(w, xstrdup(*p));
	words_add(w, xstrdup("LC_ALL=C"));
}

static void on_exit_of_apt(void *arg, int status, int signum)
{
	struct build *b = arg;

	b->child = NULL;
	b->status = status;
	b->signum = signum;
	loop_stop(b->loop);
}

static void on_tick(void *arg)
{
	struct build *b = arg;
	const struct image_progress *p = b->spec->progress;

	p->report(p->arg, "fetching packages",
		  work_bytes(b->work_fd, "apt/archives") +
			  work_bytes(b->work_fd, "apt/archives/partial"));
	timer_set(b->tick, TICK_MS);
}

static struct err *run_apt(struct build *b, const struct words *args)
{
	autoclose said =
		openat(b->work_fd, "said", O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600);
	const int fds[] = { -1, said, said };
	autowords env = { 0 };
	struct child_spec spec = { .fds = fds, .n_fds = ARRAY_LEN(fds) };
	struct err *e;

	if (said < 0)
		return err_sys(errno, "create a file for apt-get's messages");
	make_env(&env);
	spec.argv = (const char *const *)args->at;
	spec.env = (const char *const *)env.at;
	e = child_spawn(b->loop, &spec, on_exit_of_apt, b, &b->child);
	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return err_new(ERR_UNAVAILABLE, "building needs apt-get, which is not installed");
	}
	if (e)
		return e;
	if (b->spec->progress) {
		b->tick = timer_new(b->loop, on_tick, b);
		timer_set(b->tick, TICK_MS);
	}
	loop_run(b->loop);
	timer_free(take(b->tick));
	return NULL;
}

/* The rest of the line after what, up to any of the characters in end; NULL: there is none. */
static char *after(const char *text, const char *what, const char *end)
{
	const char *p = strstr(text, what);

	return p ? xstrndup(p + strlen(what), strcspn(p + strlen(what), end)) : NULL;
}

static struct err *not_found(const struct build *b, const char *package)
{
	if (b->spec->debs)
		return err_new(ERR_NOT_FOUND, "no package named %s in %s; put its .deb file there",
			       package, b->spec->debs);
	return err_new(ERR_NOT_FOUND,
		       "no package named %s in the apt sources of this machine; run apt-get "
		       "update, or name a directory that has its .deb file with --debs",
		       package);
}

/* " git : Depends: perl but it is not installable": the line, without the spaces around it. */
static char *unmet(const char *text)
{
	const char *p = strstr(text, " but it is not ");

	while (p && p > text && p[-1] != '\n')
		p--;
	return p ? xstrndup(p + strspn(p, " "), strcspn(p + strspn(p, " "), "\n")) : NULL;
}

static struct err *what_it_said(const struct build *b, const char *text)
{
	autofree char *missing = after(text, "E: Unable to locate package ", "\n");
	autofree char *void_name = after(text, "E: Package '", "'\n");
	autofree char *broken = after(text, "E: Could not read meta data from ", "\n");
	autofree char *needs = unmet(text);
	autofree char *line = after(text, "E: ", "\n");

	if (missing)
		return not_found(b, missing);
	if (void_name && strstr(text, "has no installation candidate"))
		return not_found(b, void_name);
	if (needs)
		return err_new(ERR_NOT_FOUND, "%s; %s", needs,
			       b->spec->debs ? "put its .deb file into the directory of --debs"
					     : "add an apt source that has it");
	if (broken)
		return err_new(ERR_MALFORMED, "%s is not a Debian package: %s", broken,
			       str_or(line, "unknown"));
	if (line)
		return err_new(ERR_UNAVAILABLE, "apt-get: %s", line);
	return err_new(ERR_UNAVAILABLE, "apt-get failed and said nothing");
}

/* 'file:/dir/x_1%253a2_amd64.deb' x_1%3a2_amd64.deb 1234 */
static struct err *read_uris(const char *text, struct words *ret)
{
	static const char start[] = "\n'file:";

	for (const char *p = strstr(text, start); p; p = strstr(p, start)) {
		size_t len = strcspn(p += strlen(start), "'\n");
		char *path = NULL;
		struct err *e = url_decode(p, len, false, &path, NULL);

		if (e)
			return e;
		words_add(ret, path);
	}
	return NULL;
}

/* "0 upgraded, 14 newly installed": a package that is missing here must not go unnoticed. */
static struct err *check_count(const char *text, size_t n)
{
	autofree char *count = after(text, " upgraded, ", " ");
	uint64_t want = 0;
	struct err *e = count ? parse_uint(count, DEBS_MAX, &want)
			      : err_new(ERR_UNAVAILABLE, "apt-get has not said what it found");

	if (e)
		return e;
	if (want && want == n)
		return NULL;
	return err_new(ERR_UNAVAILABLE,
		       "apt-get chose %llu packages, and %zu of them are at hand; packages of a "
		       "source on this machine's own disk are given with --debs",
		       (unsigned long long)want, n);
}

static struct err *take_debs(struct build *b, const char *text)
{
	autofree char *dir = xasprintf("%s/apt/archives", b->work);
	autowords found = { 0 };
	struct err *e = b->spec->debs ? read_uris(text, &found) : list_debs(dir, &found);

	if (!e)
		e = check_count(text, found.n);
	if (e)
		return e;
	str_sort(found.at, found.n);
	b->n_debs = found.n;
	b->debs = take(found.at);
	found.n = 0;
	return NULL;
}

struct err *build_find_packages(struct build *b)
{
	autowords args = { 0 };
	autofree char *text = NULL;
	struct err *e = make_state(b);

	if (!e)
		e = make_args(b, &args);
	if (!e)
		e = run_apt(b, &args);
	if (!e && b->stopped)
		return err_new(ERR_CANCELED, "stopped by a signal");
	if (!e)
		e = file_read(b->work_fd, "said", SAID_MAX, &text, NULL);
	if (e)
		return e;
	if (b->signum)
		return err_new(ERR_UNAVAILABLE, "apt-get was killed by signal %d", b->signum);
	return b->status ? what_it_said(b, text) : take_debs(b, text);
}
