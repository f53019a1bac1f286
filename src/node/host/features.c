/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/features.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "node/host/leftover.h"

#define PROBE_DIR ".cay-probe-"

enum {
	PROBE_MS = 20000, /* modules may have to be loaded, from a slow disk */
	ANSWER_MAX = 65536,
};

static const struct feature_info infos[FEATURE_MAX_] = {
	[FEATURE_OVERLAY] = { "overlay", true, "roots made of layers (overlay)",
			      "no sandbox has a root file system",
			      "modprobe overlay, or use a kernel with CONFIG_OVERLAY_FS, and a data "
			      "directory on ext4, xfs, btrfs or tmpfs" },
	[FEATURE_OVERLAY_APPEND] = { "overlay-append", false,
				     "overlays that take their layers one by one (lowerdir+)",
				     "all layers are named in one option, which has to fit in a page",
				     "use Linux 6.7 or later" },
	[FEATURE_OVERLAY_VOLATILE] = { "overlay-volatile", false,
				       "overlays that are not synced at their end (volatile)",
				       "the end of each sandbox waits for the disk",
				       "use Linux 5.10 or later" },
	[FEATURE_OVERLAY_IDMAP] = { "overlay-idmap", false, "overlays of layers with mapped ids",
				    "the files of an image belong to nobody inside, and its root "
				    "user cannot change those that are there",
				    "use Linux 5.19 or later; if feature-idmap-disk is missing too, "
				    "fix that first: this check depends on it" },
	[FEATURE_IDMAP_DISK] = { "idmap-disk", false,
				 "mapped ids on the file system that sandboxes write to",
				 "the files of an image belong to nobody inside, and a volume "
				 "belongs to the sandbox that mounted it last",
				 "put the data directory on ext4, xfs or btrfs, with Linux 5.15 or "
				 "later" },
	[FEATURE_IDMAP_TMPFS] = { "idmap-tmpfs", false, "mapped ids on a tmpfs",
				  "volumes of Secrets and ConfigMaps lie in an ext4 in memory",
				  "use Linux 6.3 or later" },
	[FEATURE_PTY] = { "pty", true, "terminals of a sandbox's own (devpts)",
			  "no sandbox has a /dev", "use a kernel with CONFIG_UNIX98_PTYS" },
	[FEATURE_CGROUP_KILL] = { "cgroup-kill", false, "control groups that are killed at once",
				  "the processes of a sandbox are stopped and killed one by one",
				  "use Linux 5.14 or later, with control groups of version 2" },
	[FEATURE_PEER_PIDFD] = { "peer-pidfd", false,
				 "sockets that tell which process has connected (SO_PEERPIDFD)",
				 "the caller of an identity socket is found by searching its open "
				 "descriptors",
				 "use Linux 6.5 or later" },
	[FEATURE_UNIX_DIAG] = { "unix-diag", false,
				"a way to ask who holds a local socket (unix_diag)",
				"without peer-pidfd, identity sockets answer nobody",
				"modprobe unix_diag, or use a kernel with CONFIG_UNIX_DIAG" },
};

const struct feature_info *feature_info(enum feature f)
{
	return &infos[f];
}

void features_done(struct features *fs)
{
	for (enum feature f = 0; f < FEATURE_MAX_; f++)
		free(take(fs->why[f]));
	fs->have = 0;
}

bool features_have(const struct features *fs, enum feature f)
{
	return fs->have >> f & 1;
}

bool features_lack(const struct features *fs, enum feature f)
{
	if (f == FEATURE_UNIX_DIAG && features_have(fs, FEATURE_PEER_PIDFD))
		return false;
	return !features_have(fs, f);
}

void features_note(struct features *fs, enum feature f, struct err *missing)
{
	free(take(fs->why[f]));
	if (missing)
		fs->why[f] = xstrdup(err_text(missing));
	fs->have = missing ? fs->have & ~(1u << f) : fs->have | 1u << f;
	err_free(missing);
}

char *features_names(const struct features *fs)
{
	autobuf out = { 0 };

	for (enum feature f = 0; f < FEATURE_MAX_; f++)
		if (features_have(fs, f))
			buf_printf(&out, "%s%s", out.len ? "," : "", infos[f].name);
	return xstrdup(buf_str(&out));
}

static enum feature find(struct span name)
{
	enum feature f = 0;

	while (f < FEATURE_MAX_ && !span_eq(name, infos[f].name))
		f++;
	return f;
}

struct features features_named(const char *names)
{
	struct span rest = SPAN(names);
	struct features fs = { 0 };

	while (rest.p) {
		enum feature f = find(span_cut(rest, ',', &rest));

		if (f < FEATURE_MAX_)
			fs.have |= 1u << f;
	}
	return fs;
}

void features_write(const struct features *fs, struct json_doc *d, struct json *obj)
{
	for (enum feature f = 0; f < FEATURE_MAX_; f++)
		if (features_have(fs, f))
			json_set_bool(d, obj, infos[f].name, true);
		else
			json_set_str(d, obj, infos[f].name, str_or(fs->why[f], "was not tried"));
}

static struct err *no_such(struct span name)
{
	autobuf all = { 0 };

	for (enum feature f = 0; f < FEATURE_MAX_; f++)
		buf_printf(&all, "%s%s", f ? ", " : "", infos[f].name);
	return err_new(ERR_INVALID, "there is no feature \"%.*s\"; there are %s", (int)name.len,
		       name.p, buf_str(&all));
}

struct err *features_drop(struct features *fs, const char *names)
{
	struct span rest = SPAN(str_or(names, ""));

	while (!str_empty(names) && rest.p) {
		struct span name = span_cut(rest, ',', &rest);
		enum feature f = find(name);

		if (f == FEATURE_MAX_)
			return no_such(name);
		features_note(fs, f,
			      err_new(ERR_UNSUPPORTED, "switched off by --without-features"));
	}
	return NULL;
}

struct err *features_check_names(const char *names)
{
	struct features fs = { 0 };
	struct err *e = features_drop(&fs, names);

	features_done(&fs);
	return e;
}

struct err *features_enough(const struct features *fs)
{
	for (enum feature f = 0; f < FEATURE_MAX_; f++)
		if (infos[f].needed && !features_have(fs, f))
			return err_new(
				ERR_UNSUPPORTED, "this kernel does not give sandboxes %s: %s; %s",
				infos[f].what, str_or(fs->why[f], "was not tried"), infos[f].fix);
	return NULL;
}

static struct err *read_answer(const char *text, size_t len, struct features *ret)
{
	autoptr(json_doc) d = NULL;
	struct err *e = json_parse(text, len, NULL, &d);

	if (e)
		return e;
	if (json_get(json_root(d), FEATURES_UNTRIED))
		return err_new(ERR_UNSUPPORTED, "%s",
			       str_or(json_str(json_get(json_root(d), FEATURES_UNTRIED)), ""));
	*ret = (struct features){ 0 };
	for (enum feature f = 0; f < FEATURE_MAX_; f++) {
		const struct json *v = json_get(json_root(d), infos[f].name);

		features_note(ret, f,
			      json_bool(v, false) ? NULL
						  : err_new(ERR_UNSUPPORTED, "%s",
							    str_or(json_str(v), "was not tried")));
	}
	return NULL;
}

/* Until the other side closes. */
static struct err *collect(int fd, struct buf *out)
{
	usec deadline = clock_mono() + PROBE_MS * 1000LL;

	while (out->len < ANSWER_MAX) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		usec left = deadline - clock_mono();
		char part[4096];
		ssize_t n;

		if (left <= 0)
			return err_new(ERR_TIMEOUT, "no answer within %d s", PROBE_MS / 1000);
		if (poll(&p, 1, (int)(left / 1000) + 1) < 1)
			continue;
		n = read(fd, part, sizeof(part));
		if (n < 0 && errno != EINTR)
			return err_sys(errno, "read the answer");
		if (n == 0)
			return NULL;
		if (n > 0)
			buf_add(out, part, (size_t)n);
	}
	return err_new(ERR_TOO_LARGE, "the answer has more than %d bytes", ANSWER_MAX);
}

static struct err *spawn(const struct features_spec *spec, int out, pid_t *ret)
{
	autofree char *id = xasprintf("%u", spec->last_id);
	autofree char *program = xstrdup(spec->launcher), *dir = xstrdup(spec->dir);
	autofree char *group = spec->group ? xstrdup(spec->group) : NULL;
	char *const argv[] = { program, (char[]){ "--probe" }, dir, id, group, NULL };
	posix_spawn_file_actions_t fds;
	posix_spawnattr_t attr;
	int r;

	/* An interrupt at the terminal is for us: the probe tidies up in any case. */
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	(void)posix_spawn_file_actions_init(&fds);
	(void)posix_spawn_file_actions_addopen(&fds, 0, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_adddup2(&fds, out, 1);
	r = posix_spawn(ret, program, &fds, &attr, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fds);
	(void)posix_spawnattr_destroy(&attr);
	return r ? err_sys(r, "run %s", program) : NULL;
}

char *features_probe_dir(const char *dir, int pid)
{
	return xasprintf("%s/" PROBE_DIR "%d", dir, pid);
}

struct err *features_probe(const struct features_spec *spec, struct features *ret)
{
	autofree char *left = NULL;
	autobuf answer = { 0 };
	int pipe_fds[2];
	struct err *e;
	pid_t pid = -1;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(errno, "make a pipe");
	leftovers_remove(spec->dir, PROBE_DIR);
	e = spawn(spec, pipe_fds[1], &pid);
	(void)close(pipe_fds[1]);
	if (!e)
		e = collect(pipe_fds[0], &answer);
	(void)close(pipe_fds[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL); /* it has said all it has to say, or never will */
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		left = features_probe_dir(spec->dir, (int)pid);
		err_free(file_remove_tree(AT_FDCWD, left));
	}
	if (!e)
		e = read_answer(buf_str(&answer), answer.len, ret);
	return err_wrap(e, "try what this kernel can do");
}
