/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

/*
 * A store is copied while it is open, as a crash would leave it, and its log is damaged. Each
 * commit puts the same key, so each has as many frames as the others.
 */
enum {
	COMMITS = 6,
	HEADER = 32,
	FRAME = 24 + 4096,
};

static void copy_file(const char *from, const char *to, const char *suffix)
{
	autofree char *a = xasprintf("%s%s", from, suffix), *b = xasprintf("%s%s", to, suffix);
	autofree char *data = NULL;
	autoclose fd = -1;
	size_t len;

	works(file_read(AT_FDCWD, a, 64 << 20, &data, &len));
	fd = open(b, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	is_true(fd >= 0);
	works(fd_write_all(fd, data, len));
}

/* f is left with a path that nobody has open, and the length of its log. */
static size_t crash(struct fixture *f)
{
	autofree char *copy = NULL, *log = NULL;
	struct stat st;

	fixture_init(f, true);
	works(fixture_open(f, NULL));
	for (int i = 0; i < COMMITS; i++) {
		works(put(f->store, "a", "x", STORE_ANY));
		works(sync_now(f));
	}
	copy = xasprintf("%s/copy.db", f->dir);
	copy_file(f->path, copy, "");
	copy_file(f->path, copy, "-wal");
	fixture_close(f);
	(void)snprintf(f->path, sizeof(f->path), "%s", copy);
	log = xasprintf("%s-wal", copy);
	eq_int(stat(log, &st), 0);
	eq_int((st.st_size - HEADER) % FRAME, 0);
	return (size_t)(st.st_size - HEADER) / FRAME;
}

static void flip(const struct fixture *f, size_t at)
{
	autofree char *log = xasprintf("%s-wal", f->path);
	autoclose fd = open(log, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	eq_int(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x40;
	eq_int(pwrite(fd, &byte, 1, (off_t)at), 1);
}

TEST(a_log_with_commits_after_a_bad_frame_is_refused)
{
	struct store_spec accept = { .accept_damaged_log = true };
	struct fixture f;
	struct err *e;
	size_t n = crash(&f);

	for (size_t i = 0; i + n / COMMITS + 1 < n; i++) {
		flip(&f, HEADER + i * FRAME + 24 + 100);
		e = fixture_open(&f, NULL);
		is_true(err_is(e, ERR_CORRUPT));
		is_true(strstr(err_text(e), "--accept-damaged-log") != NULL);
		err_free(e);
		flip(&f, HEADER + i * FRAME + 24 + 100);
	}
	flip(&f, HEADER + (n / 2) * FRAME + 24 + 100);
	works(fixture_open(&f, &accept));
	is_true(store_rev(f.store) < COMMITS);
	fixture_done(&f);
}

TEST(a_log_with_a_bad_header_is_refused)
{
	struct fixture f;

	(void)crash(&f);
	flip(&f, 17);
	fails(fixture_open(&f, NULL), ERR_CORRUPT);
	fixture_done(&f);
}

TEST(a_log_with_a_torn_end_is_fine)
{
	autofree char *log = NULL;
	struct fixture f;
	size_t n = crash(&f);

	log = xasprintf("%s-wal", f.path);
	eq_int(truncate(log, (off_t)(HEADER + (n - 1) * FRAME + 1000)), 0);
	works(fixture_open(&f, NULL));
	eq_int(store_rev(f.store), COMMITS - 1);
	fixture_done(&f);
}

/* The frames of the last commit may reach the disk in any order. */
TEST(a_last_commit_with_a_hole_is_fine)
{
	struct fixture f;
	size_t n = crash(&f), each = n / COMMITS;

	is_true(each > 1);
	flip(&f, HEADER + (n - each) * FRAME + 24 + 100);
	works(fixture_open(&f, NULL));
	eq_int(store_rev(f.store), COMMITS - 1);
	fixture_done(&f);
}
