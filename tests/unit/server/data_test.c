/* SPDX-License-Identifier: Apache-2.0 */
#include "server/data/data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/registry.h"
#include "base/file.h"
#include "fixture.h"
#include "kinds.h"

/*
 * A restoration is ended after each of its steps in turn, as kill -9 would: the calls below that
 * change a file system are ours, and count.
 */
static int steps_left = -1; /* -1: all of them */

static void step(void)
{
	if (steps_left < 0)
		return;
	steps_left--;
	if (!steps_left)
		_exit(9);
}

int renameat(int from, const char *old, int to, const char *name)
{
	step();
	return (int)syscall(SYS_renameat2, from, old, to, name, 0);
}

int unlinkat(int dir, const char *name, int flags)
{
	step();
	return (int)syscall(SYS_unlinkat, dir, name, flags);
}

int mkdirat(int dir, const char *name, mode_t mode)
{
	step();
	return (int)syscall(SYS_mkdirat, dir, name, mode);
}

int fsync(int fd)
{
	step();
	return (int)syscall(SYS_fsync, fd);
}

enum {
	MOST_STEPS = 1000,
	ENDED = 9,
};

static struct data_backup_facts back_up(struct fixture *f, const char *file)
{
	const struct data_backup b = { .data_dir = f->dir, .file = file };
	struct data_backup_facts facts;

	works(data_backup(&b, &facts));
	return facts;
}

/* In a process of its own, which ends at that step. */
static int restore_up_to(int n, const char *file, const char *dir)
{
	const struct data_restore r = { .file = file, .data_dir = dir, .force = true };
	struct data_backup_facts facts;
	pid_t pid = fork();
	int status = 0;

	is_true(pid >= 0);
	if (!pid) {
		steps_left = n;
		_exit(data_restore(&r, &facts) ? 1 : 0);
	}
	eq_int(waitpid(pid, &status, 0), pid);
	is_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static size_t n_faults(const char *dir)
{
	autoptr(json_doc) doc = NULL;
	size_t n = 99;

	works(data_check(dir, test_kinds(), &doc, &n));
	return n;
}

static bool has(struct fixture *f, const char *name)
{
	autoptr(object) o = look(f, kinds_need(test_kinds(), "v1", "ConfigMap"), "default", name);

	return o != NULL;
}

static void add(struct fixture *f, const char *text)
{
	works(make(f, kinds_need(test_kinds(), "v1", "ConfigMap"), "default", text, NULL));
	settle(f);
}

TEST(a_restoration_that_is_killed_at_any_step_is_whole_or_not_at_all)
{
	const struct kind *k = kinds_need(test_kinds(), "v1", "ConfigMap");
	int n_old = 0, n_new = 0, code = ENDED;
	autofree char *file = NULL;
	struct fixture f;

	fixture_init(&f);
	file = xasprintf("%s.backup", f.dir);
	add(&f, CONFIG("before"));
	(void)back_up(&f, file);
	for (int n = 1; code == ENDED; n++) {
		is_true(n < MOST_STEPS);
		if (!has(&f, "after"))
			add(&f, CONFIG("after"));
		if (has(&f, "before"))
			works(drop(&f, k, "default", "before", NULL));
		settle(&f);
		fixture_close(&f);
		(void)loop_turn(f.loop, 0);

		code = restore_up_to(n, file, f.dir);
		works(fixture_open(&f));
		is_true(has(&f, "before") != has(&f, "after"));
		n_old += has(&f, "after");
		n_new += has(&f, "before");
		eq_int(n_faults(f.dir), 0);
	}
	eq_int(code, 0);
	is_true(n_old > 5 && n_new > 5);
	eq_int(unlink(file), 0);
	fixture_done(&f);
}

TEST(a_backup_has_a_name_only_when_it_is_complete)
{
	const struct data_restore r = { .file = "/nonexistent/file", .data_dir = "/nonexistent" };
	struct data_backup_facts facts;
	autofree char *file = NULL;
	struct fixture f;
	struct stat st;

	fixture_init(&f);
	settle(&f);
	file = xasprintf("%s.backup", f.dir);
	facts = back_up(&f, file);
	eq_int(stat(file, &st), 0);
	eq_int(st.st_mode & 07777, 0600);
	eq_int(facts.bytes, st.st_size);
	is_true(facts.rev == store_committed_rev(server_store(f.server)));
	is_true(facts.id == store_id(server_store(f.server)));
	fails(data_restore(&r, &facts), ERR_NOT_FOUND);
	is_true(!file_exists(AT_FDCWD, "/nonexistent"));
	eq_int(unlink(file), 0);
	fixture_done(&f);
}

TEST(the_holder_of_a_directory_is_found_by_its_lock)
{
	struct data_holder h;
	struct fixture f;
	int fd = -1;

	fixture_init(&f);
	works(data_holder_find(f.dir, &h));
	eq_int(h.pid, getpid());
	is_true(h.pidfd >= 0 && str_starts(h.text, "cay serve pid "));
	(void)close(h.pidfd);
	fails(data_lock(f.dir, &fd), ERR_CONFLICT);
	fixture_close(&f);
	works(data_holder_find(f.dir, &h)); /* its text is still there */
	eq_int(h.pid, 0);
	eq_int(h.pidfd, -1);
	works(data_lock(f.dir, &fd));
	(void)close(fd);
	works(fixture_open(&f));
	fixture_done(&f);
}
