/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "base/random.h"
#include "fixture.h"

/*
 * A child writes and reports over a pipe what was acknowledged; the parent kills it at a random
 * time, opens the file again and compares.
 */
enum {
	ROUNDS = 12,
};

struct ack {
	uint64_t n, rev;
};

static noreturn_fn void child_writes(const char *path, uint64_t n, int out)
{
	struct store_spec spec = { .path = path };
	struct fixture f = { 0 };
	struct ack ack;
	char key[32];

	if (loop_new(&f.loop) || store_open(f.loop, &spec, &f.store))
		_exit(2);
	for (;; n++) {
		(void)snprintf(key, sizeof(key), "k/%llu", (unsigned long long)n);
		if (put(f.store, key, "x", 0))
			_exit(3);
		if (put(f.store, "counter", key, STORE_ANY))
			_exit(4);
		if (n % 3 == 0 && del(f.store, key, STORE_ANY))
			_exit(5);
		if (sync_now(&f))
			_exit(6);
		ack = (struct ack){ n, store_rev(f.store) };
		if (write(out, &ack, sizeof(ack)) != sizeof(ack))
			_exit(7);
	}
}

static struct ack run_and_kill(const char *path, uint64_t from)
{
	struct ack ack, last = { 0 };
	unsigned left = 1 + (unsigned)(random_u64() % 40);
	int fds[2], status;
	pid_t pid;

	eq_int(pipe(fds), 0);
	pid = fork();
	is_true(pid >= 0);
	if (!pid)
		child_writes(path, from, fds[1]);
	(void)close(fds[1]);
	while (left-- && read(fds[0], &ack, sizeof(ack)) == sizeof(ack))
		last = ack;
	(void)kill(pid, SIGKILL);
	while (read(fds[0], &ack, sizeof(ack)) == sizeof(ack))
		last = ack;
	(void)close(fds[0]);
	eq_int(waitpid(pid, &status, 0), pid);
	is_true(WIFSIGNALED(status));
	return last;
}

TEST(every_acknowledged_write_survives_kill_9)
{
	struct ack last = { 0 };
	struct fixture f;
	char key[32];

	fixture_init(&f, true);
	for (int round = 0; round < ROUNDS; round++) {
		struct ack before = last;

		last = run_and_kill(f.path, before.n + 1);
		is_true(last.rev > before.rev);
		works(fixture_open(&f, NULL));
		is_true(store_rev(f.store) >= last.rev); /* no revision is used again */
		for (uint64_t n = 1; n <= last.n; n++) {
			(void)snprintf(key, sizeof(key), "k/%llu", (unsigned long long)n);
			is_true((store_get(f.store, key) != NULL) == (n % 3 != 0));
		}
		/*
		 * One more turn may be on disk without having been acknowledged, but only as a
		 * whole.
		 */
		last.n += store_rev(f.store) > last.rev;
		last.rev = store_rev(f.store);
		fixture_close(&f);
	}
	fixture_done(&f);
}
