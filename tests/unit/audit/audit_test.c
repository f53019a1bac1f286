/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "json/json.h"
#include "loop/loop.h"
#include "test.h"

/* A log in a directory of its own. */
struct rig {
	struct loop *loop;
	struct audit *audit;
	char dir[64], path[96];
	unsigned told;
	bool trouble;
};

static void on_trouble(void *arg, const struct err *e)
{
	struct rig *r = arg;

	r->told++;
	r->trouble = e;
}

static void rig_open(struct rig *r, uint64_t max_bytes, unsigned keep)
{
	works(audit_open(r->loop,
			 &(struct audit_spec){ .path = r->path,
					       .max_bytes = max_bytes,
					       .keep = keep,
					       .trouble = on_trouble,
					       .arg = r },
			 &r->audit));
}

static void rig_init(struct rig *r)
{
	*r = (struct rig){ 0 };
	works(loop_new(&r->loop));
	(void)snprintf(r->dir, sizeof(r->dir), "/tmp/cay-audit-XXXXXX");
	is_true(mkdtemp(r->dir));
	(void)snprintf(r->path, sizeof(r->path), "%s/audit.log", r->dir);
}

static void rig_close(struct rig *r)
{
	audit_free(r->audit);
	r->audit = NULL;
}

static void rig_done(struct rig *r)
{
	rig_close(r);
	loop_free(r->loop);
	works(file_remove_tree(AT_FDCWD, r->dir));
}

/* Without the lines that begin files; takes text over. */
static char *without_begin(char *text)
{
	autofree char *whole = text;
	struct buf out = { 0 };
	struct span rest = SPAN(whole);

	while (rest.len) {
		struct span line = span_cut(rest, '\n', &rest);

		if (!memmem(line.p, line.len, "\"begin\":", 8)) {
			buf_add(&out, line.p, line.len);
			if (rest.p)
				buf_add_char(&out, '\n');
		}
	}
	return buf_steal(&out, NULL);
}

static char *content(const struct rig *r, const char *suffix)
{
	autofree char *path = xasprintf("%s%s", r->path, suffix);
	char *text = NULL;

	if (file_exists(AT_FDCWD, path))
		works(file_read(AT_FDCWD, path, 64 << 20, &text, NULL));
	return text ? without_begin(text) : NULL;
}

static size_t lines(const char *text)
{
	size_t n = 0;

	for (; text && *text; text++)
		n += *text == '\n';
	return n;
}

static void note(struct rig *r, const char *name)
{
	audit_write(r->audit,
		    &(struct audit_record){ .user = "u", .verb = "create", .name = name });
}

TEST(a_record_is_a_line_that_leaves_out_what_is_not_known)
{
	autoptr(json_doc) d = NULL;
	autofree char *text = NULL;
	const struct json *o;
	struct stat st;
	struct rig r;

	rig_init(&r);
	rig_open(&r, 1 << 20, 1);
	audit_write(r.audit, &(struct audit_record){ .user = "jane \"x\"\n",
						     .from = "127.0.0.1:5",
						     .verb = "create",
						     .resource = "pods",
						     .sub = "exec",
						     .ns = "default",
						     .name = "web",
						     .status = 403,
						     .note = "no",
						     .took = 7 });
	rig_close(&r);
	text = content(&r, "");
	eq_int(lines(text), 1);
	works(json_parse(text, strlen(text), NULL, &d));
	o = json_root(d);
	eq_str(json_get_str(o, "user"), "jane \"x\"\n");
	eq_str(json_get_str(o, "subresource"), "exec");
	eq_str(json_get_str(o, "note"), "no");
	is_true(json_get_str(o, "time"));
	is_false(json_get(o, "group"));
	is_false(json_get(o, "as"));
	is_false(json_get(o, "dryRun"));
	eq_int(stat(r.path, &st), 0);
	eq_int(st.st_mode & 0777, 0600);
	rig_done(&r);
}

TEST(a_long_text_is_cut_between_characters)
{
	char name[2000] = "x";
	autoptr(json_doc) d = NULL;
	autofree char *text = NULL;
	struct rig r;

	for (size_t i = 1; i + 2 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xa9", 3); /* é */
	rig_init(&r);
	rig_open(&r, 1 << 20, 1);
	note(&r, name);
	rig_close(&r);
	text = content(&r, "");
	works(json_parse(text, strlen(text), NULL, &d));
	eq_int(strlen(json_get_str(json_root(d), "name")), AUDIT_TEXT_MAX - 1);
	rig_done(&r);
}

TEST(files_are_rotated_at_the_end_of_a_line_and_the_oldest_goes)
{
	static const char *const suffixes[] = { "", ".1", ".2" };
	struct rig r;
	struct stat st;

	rig_init(&r);
	rig_open(&r, 1000, 2);
	for (int i = 0; i < 200; i++) {
		note(&r, "web");
		if (i % 7 == 0)
			(void)loop_turn(r.loop, 10);
	}
	rig_close(&r);
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		autofree char *path = xasprintf("%s%s", r.path, suffixes[i]);
		autofree char *text = content(&r, suffixes[i]);

		is_true(text && text[0] == '{' && text[strlen(text) - 1] == '\n');
		eq_int(stat(path, &st), 0);
		is_true(st.st_size <= 1000);
	}
	is_false(content(&r, ".3"));
	rig_done(&r);
}

TEST(a_line_that_is_longer_than_a_file_has_one_of_its_own)
{
	autofree char *now = NULL, *before = NULL;
	struct rig r;

	rig_init(&r);
	rig_open(&r, 10, 5);
	note(&r, "first");
	note(&r, "second");
	rig_close(&r);
	now = content(&r, "");
	before = content(&r, ".1");
	eq_int(lines(now), 1);
	eq_int(lines(before), 1);
	is_true(strstr(now, "second") && strstr(before, "first"));
	rig_done(&r);
}

TEST(a_torn_line_is_ended_before_the_next)
{
	static const char torn[] = "{\"time\":\"20";
	autofree char *text = NULL;
	struct rig r;
	int fd;

	rig_init(&r);
	fd = open(r.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	works(fd_write_all(fd, torn, sizeof(torn) - 1));
	(void)close(fd);
	rig_open(&r, 1 << 20, 1);
	note(&r, "web");
	rig_close(&r);
	text = content(&r, "");
	eq_int(lines(text), 3);
	is_true(str_starts(strchr(text, '\n') + 1, "{\"n\":2,"));
	is_true(strstr(text, "\"torn\":true}\n"));
	rig_done(&r);
}

static void on_written(struct audit_wait *w, struct err *e)
{
	w->n = e ? UINT64_MAX - 1 : UINT64_MAX;
	err_free(e);
}

TEST(who_waits_is_told_when_the_record_is_in_the_file)
{
	struct audit_wait w = { .done = on_written }, again = w, dropped = w;
	autofree char *text = NULL;
	struct rig r;

	rig_init(&r);
	rig_open(&r, 1 << 20, 1);
	note(&r, "web");
	audit_after(r.audit, &w);
	audit_after(r.audit, &dropped);
	audit_after_cancel(&dropped);
	is_true(w.n != UINT64_MAX);
	while (w.n != UINT64_MAX)
		(void)loop_turn(r.loop, 100);
	text = content(&r, "");
	eq_int(lines(text), 1);
	audit_after(r.audit, &again); /* nothing is left to write */
	while (again.n != UINT64_MAX)
		(void)loop_turn(r.loop, 100);
	is_true(dropped.n != UINT64_MAX);
	rig_done(&r);
}

static void wait_for(struct rig *r, struct audit_wait *w)
{
	*w = (struct audit_wait){ .done = on_written };
	audit_after(r->audit, w);
	while (w->n != UINT64_MAX)
		(void)loop_turn(r->loop, 100);
}

TEST(a_line_that_is_waited_for_is_written_at_once_with_those_before_it)
{
	struct audit_wait w = { 0 }, mine = { .done = on_written };
	autofree char *text = NULL;
	struct rig r;

	rig_init(&r);
	rig_open(&r, 1 << 20, 1);
	note(&r, "first");
	wait_for(&r, &w); /* the job begins the file */
	note(&r, "second");
	note(&r, "third");
	audit_after(r.audit, &mine);
	text = content(&r, "");
	eq_int(lines(text), 3);
	is_true(strstr(text, "\"second\"") < strstr(text, "\"third\""));
	eq_int(mine.n, 3); /* and is told from the loop */
	(void)loop_turn(r.loop, 0);
	eq_int(mine.n, UINT64_MAX);
	eq_int(audit_counts(r.audit).written, 3);
	rig_done(&r);
}

TEST(what_is_waited_for_is_whole_and_in_order_over_rotations)
{
	struct audit_wait w = { 0 };
	autobuf all = { 0 };
	char name[16];
	struct stat st;
	struct rig r;
	const char *p;

	rig_init(&r);
	rig_open(&r, 2000, 90);
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "n%03d", i);
		note(&r, name);
		if (i % 3)
			wait_for(&r, &w);
	}
	rig_close(&r);
	for (int n = 90; n >= 0; n--) {
		autofree char *suffix = n ? xasprintf(".%d", n) : xstrdup("");
		autofree char *path = xasprintf("%s%s", r.path, suffix);
		autofree char *text = content(&r, suffix);

		if (!text)
			continue;
		eq_int(stat(path, &st), 0);
		is_true(st.st_size <= 2000);
		buf_add_str(&all, text);
	}
	p = buf_str(&all);
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "n%03d", i);
		p = strstr(p, name);
		is_true(p);
	}
	eq_int(lines(buf_str(&all)), 300);
	rig_done(&r);
}

TEST(a_rotation_is_left_to_the_job)
{
	struct audit_wait w = { 0 }, mine = { .done = on_written };
	autofree char *before = NULL, *after = NULL;
	struct rig r;

	rig_init(&r);
	rig_open(&r, 10, 1);
	note(&r, "first");
	wait_for(&r, &w);
	note(&r, "second");
	audit_after(r.audit, &mine);
	before = content(&r, ".1");
	while (mine.n != UINT64_MAX)
		(void)loop_turn(r.loop, 100);
	after = content(&r, ".1");
	is_false(before);
	is_true(after);
	rig_done(&r);
}

/* Whoever reads it may not. */
TEST(standard_output_is_never_written_by_the_loop)
{
	struct audit_wait w = { 0 }, mine = { .done = on_written };
	struct rig r;
	int fds[2], out = dup(STDOUT_FILENO), n = 0, again = 0;

	rig_init(&r);
	(void)snprintf(r.path, sizeof(r.path), "-");
	(void)fflush(stdout);
	eq_int(pipe(fds), 0);
	eq_int(dup2(fds[1], STDOUT_FILENO), STDOUT_FILENO);
	rig_open(&r, 1 << 20, 1);
	note(&r, "first");
	wait_for(&r, &w);
	eq_int(ioctl(fds[0], FIONREAD, &n), 0);
	note(&r, "second");
	audit_after(r.audit, &mine);
	eq_int(ioctl(fds[0], FIONREAD, &again), 0);
	audit_after_cancel(&mine);
	rig_close(&r);
	eq_int(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	is_true(n > 0);
	eq_int(n, again);
	(void)close(out);
	(void)close(fds[0]);
	(void)close(fds[1]);
	rig_done(&r);
}

TEST(what_is_too_much_is_counted_and_told)
{
	static char name[500];
	autofree char *text = NULL;
	struct audit_counts counts;
	char told[40];
	struct rig r;

	rig_init(&r);
	memset(name, 'n', sizeof(name) - 1);
	rig_open(&r, 1ULL << 40, 1);
	for (int i = 0; i < 2 * AUDIT_PENDING_MAX / (int)sizeof(name); i++)
		note(&r, name); /* without a turn of the loop, nothing is taken but the first */
	counts = audit_counts(r.audit);
	is_true(counts.lost > 0);
	rig_close(&r);
	text = content(&r, "");
	(void)snprintf(told, sizeof(told), "\"lost\":%llu}\n", (unsigned long long)counts.lost);
	is_true(str_ends(text, told));
	rig_done(&r);
}

TEST(only_a_regular_file_in_a_directory_that_exists_is_opened)
{
	struct rig r;

	rig_init(&r);
	(void)snprintf(r.path, sizeof(r.path), "/dev/full");
	fails(audit_open(r.loop, &(struct audit_spec){ .path = r.path, .max_bytes = 1000 },
			 &r.audit),
	      ERR_INVALID); /* no file: rotation would replace it */
	(void)snprintf(r.path, sizeof(r.path), "%s/none/audit.log", r.dir);
	fails(audit_open(r.loop, &(struct audit_spec){ .path = r.path, .max_bytes = 1000 },
			 &r.audit),
	      ERR_NOT_FOUND);
	rig_done(&r);
}

static void set_limit(rlim_t max)
{
	eq_int(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ max, RLIM_INFINITY }), 0);
}

TEST(a_disk_that_is_full_for_a_while_is_told_once_and_costs_no_line)
{
	struct audit_wait w = { 0 };
	autofree char *text = NULL;
	struct rig r;

	rig_init(&r);
	(void)signal(SIGXFSZ, SIG_IGN);
	rig_open(&r, 1 << 20, 1);
	set_limit(50);
	note(&r, "one");
	note(&r, "two");
	w.done = on_written;
	audit_after(r.audit, &w); /* it fails, and the next does not wait for what is there */
	while (!r.trouble)
		(void)loop_turn(r.loop, 100);
	set_limit(RLIM_INFINITY);
	while (r.trouble)
		(void)loop_turn(r.loop, 100);
	eq_int(r.told, 2);
	eq_int(w.n, UINT64_MAX - 1);
	note(&r, "three");
	audit_after(r.audit, &w);
	while (w.n != UINT64_MAX)
		(void)loop_turn(r.loop, 100);
	rig_close(&r);
	text = content(&r, "");
	eq_int(lines(text), 3);
	is_true(strstr(text, "\"one\"") < strstr(text, "\"two\""));
	is_true(strstr(text, "}\n{"));
	rig_done(&r);
}

TEST(a_write_on_the_loop_that_fails_is_told_as_one_of_the_job)
{
	struct audit_wait w = { 0 };
	autofree char *text = NULL;
	struct stat st;
	struct rig r;

	rig_init(&r);
	(void)signal(SIGXFSZ, SIG_IGN);
	rig_open(&r, 1 << 20, 1);
	note(&r, "one");
	wait_for(&r, &w);
	eq_int(stat(r.path, &st), 0);
	set_limit((rlim_t)st.st_size + 20);
	note(&r, "two");
	w = (struct audit_wait){ .done = on_written };
	audit_after(r.audit, &w);
	note(&r, "three");
	while (!r.trouble)
		(void)loop_turn(r.loop, 100);
	eq_int(w.n, UINT64_MAX - 1);
	set_limit(RLIM_INFINITY);
	wait_for(&r, &w);
	is_false(r.trouble);
	eq_int(audit_counts(r.audit).written, 3);
	rig_close(&r);
	text = content(&r, "");
	eq_int(lines(text), 3);
	is_true(strstr(text, "\"one\"") < strstr(text, "\"two\""));
	is_true(strstr(text, "\"two\"") < strstr(text, "\"three\""));
	rig_done(&r);
}

TEST(a_link_is_not_followed)
{
	autofree char *target = NULL;
	autoptr(err) e = NULL;
	struct rig r;

	rig_init(&r);
	target = xasprintf("%s/target", r.dir);
	eq_int(symlink(target, r.path), 0);
	e = audit_open(r.loop, &(struct audit_spec){ .path = r.path, .max_bytes = 1000 }, &r.audit);
	is_true(e);
	is_false(file_exists(AT_FDCWD, target));
	rig_done(&r);
}

TEST(a_connection_has_its_pod_and_bytes_and_a_write_what_policies_found)
{
	autofree char *text = NULL, *found = xasprintf("%5000s\"", "x");
	const struct audit_note notes[] = { { "a/b", "c \"d\"" }, { "e", found }, { 0 } };
	autoptr(json_doc) d = NULL;
	const struct json *o;
	struct rig r;

	rig_init(&r);
	rig_open(&r, 1 << 20, 1);
	audit_write(r.audit, &(struct audit_record){ .verb = "connect",
						     .pod = "p-1",
						     .received = 7,
						     .sent = UINT64_C(5000000000),
						     .notes = notes });
	rig_close(&r);
	text = content(&r, "");
	works(json_parse(text, strlen(text) - 1, NULL, &d));
	o = json_root(d);
	eq_str(json_get_str(o, "pod"), "p-1");
	eq_int(json_get_int(o, "received", 0), 7);
	eq_int(json_get_int(o, "sent", 0), 5000000000);
	eq_str(json_get_str(json_get(o, "annotations"), "a/b"), "c \"d\"");
	eq_int(strlen(json_get_str(json_get(o, "annotations"), "e")), AUDIT_NOTE_MAX);
	rig_done(&r);
}
