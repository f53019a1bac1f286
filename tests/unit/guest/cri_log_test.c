/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "guest/cri_log_priv.h"
#include "test.h"

/* The log so far, without its times: "stdout F text\n". */
static char *lines_of(int fd)
{
	autofree char *path = xasprintf("/proc/self/fd/%d", fd), *all = NULL;
	autobuf out = { 0 };
	size_t len;

	works(file_read(AT_FDCWD, path, 64 << 20, &all, &len));
	for (char *line = all, *end; *line; line = end + 1) {
		char *text = strchr(line, ' ');

		end = strchr(line, '\n');
		is_true(text && end && text - line == 30 && text[-1] == 'Z');
		buf_add(&out, text + 1, (size_t)(end - text));
	}
	return buf_steal(&out, NULL);
}

static int log_file(void)
{
	return memfd_create("log", MFD_CLOEXEC);
}

static void feed(struct cri_log *log, enum log_source source, const char *text)
{
	cri_log_feed(log, source, text, strlen(text));
}

TEST(lines_are_whole_however_they_come)
{
	autoclose fd = log_file();
	autofree char *got = NULL;
	struct cri_log log;

	cri_log_init(&log, fd);
	feed(&log, LOG_SOURCE_STDOUT, "on");
	feed(&log, LOG_SOURCE_STDERR, "other\n");
	feed(&log, LOG_SOURCE_STDOUT, "e\n\ntwo\nthr");
	cri_log_end(&log, LOG_SOURCE_STDOUT);
	cri_log_end(&log, LOG_SOURCE_STDERR);
	cri_log_done(&log);
	got = lines_of(fd);
	eq_str(got, "stderr F other\nstdout F one\nstdout F \nstdout F two\nstdout F thr\n");
}

TEST(long_lines_are_split_at_sixteen_kib_whatever_the_pieces)
{
	autofree char *text = xmalloc(2 * LOG_LINE + 6), *want = NULL;
	size_t len = 2 * LOG_LINE + 6;

	memset(text, 'x', len);
	memcpy(text + len - 6, "end\nz\n", 6);
	want = xasprintf("stdout P %.*s\nstdout P %.*s\nstdout F end\nstdout F z\n", LOG_LINE, text,
			 LOG_LINE, text);
	for (size_t piece = 1; piece <= len; piece = piece * 3 + 1) {
		autoclose fd = log_file();
		autofree char *got = NULL;
		struct cri_log log;

		cri_log_init(&log, fd);
		for (size_t at = 0; at < len; at += piece)
			cri_log_feed(&log, LOG_SOURCE_STDOUT, text + at, MIN(piece, len - at));
		cri_log_done(&log);
		got = lines_of(fd);
		is_true(!strcmp(got, want));
	}
}

TEST(line_of_exactly_the_limit_is_followed_by_its_empty_end)
{
	autoclose fd = log_file();
	autofree char *text = xmalloc(LOG_LINE + 1), *got = NULL;
	struct cri_log log;

	memset(text, 'x', LOG_LINE);
	text[LOG_LINE] = '\n';
	cri_log_init(&log, fd);
	cri_log_feed(&log, LOG_SOURCE_STDOUT, text, LOG_LINE + 1);
	got = lines_of(fd);
	is_true(strlen(got) == LOG_LINE + 10 + 10 && !strncmp(got, "stdout P x", 10));
	eq_str(got + LOG_LINE + 10, "stdout F \n");
	cri_log_done(&log);
}

TEST(disk_usage_is_bounded_and_offsets_stay)
{
	autoclose fd = log_file();
	autofree char *line = xmalloc(8192);
	struct cri_log log;
	struct stat st;

	memset(line, 'y', 8192);
	line[8191] = '\n';
	cri_log_init(&log, fd);
	for (int i = 0; i < 5000; i++)
		cri_log_feed(&log, LOG_SOURCE_STDOUT, line, 8192);
	is_true(!fstat(fd, &st));
	is_true(st.st_size > 5000 * 8192);
	is_true((uint64_t)st.st_size == log.size);
	is_true(st.st_blocks * 512 <= LOG_MAX + 8192);
	is_true(st.st_blocks * 512 >= LOG_MAX / 2 - 8192);
	cri_log_done(&log);
}

TEST(a_log_that_cannot_be_written_is_not_an_error)
{
	autoclose full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct cri_log log;

	cri_log_init(&log, -1);
	feed(&log, LOG_SOURCE_STDOUT, "x\n");
	cri_log_done(&log);
	cri_log_init(&log, full);
	feed(&log, LOG_SOURCE_STDOUT, "x\n");
	cri_log_done(&log);
}

TEST(lines_that_could_not_be_written_are_counted_by_the_next_that_can)
{
	autoclose fd = log_file();
	autoclose full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	autofree char *got = NULL;
	struct cri_log log;

	cri_log_init(&log, fd);
	feed(&log, LOG_SOURCE_STDOUT, "before\n");
	log.fd = full;
	feed(&log, LOG_SOURCE_STDOUT, "lost\nlost too\n");
	log.fd = fd;
	feed(&log, LOG_SOURCE_STDOUT, "after\n");
	cri_log_done(&log);
	got = lines_of(fd);
	eq_str(got,
	       "stdout F before\nstderr F cay: 2 lines were not logged: No space left on device\n"
	       "stdout F after\n");
}
