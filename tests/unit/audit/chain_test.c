/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/chain.h"

#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "test.h"

/* A log of two files in memory, as lines that a test may change. */
enum {
	LINES = 14,
};
struct log {
	struct ed25519 *key;
	unsigned char public[ED25519_KEY_LEN];
	char *lines[LINES + 2];
	size_t n;
	struct chain_head head;
	struct buf said;
};

static void split(struct log *l, struct buf *b)
{
	struct span rest = { buf_head(b), b->len };

	l->n = 0;
	while (rest.len) {
		struct span line = span_cut(rest, '\n', &rest);

		l->lines[l->n++] = xstrndup(line.p, line.len);
	}
}

static void log_init(struct log *l)
{
	autobuf out = { 0 }, head = { 0 };
	struct chain c;

	*l = (struct log){ .key = ed25519_new() };
	ed25519_public(l->key, l->public);
	chain_init(&c, l->key);
	chain_add_begin(&c, 1, &out);
	for (int i = 0; i < LINES - 3; i++) {
		autofree char *line = xasprintf("{\"name\":\"r%d\"}", i);

		chain_add(&c, line, strlen(line), &out);
		if (i == 4) {
			chain_add_checkpoint(&c, 1, &out);
			chain_add_begin(&c, 1, &out);
		}
	}
	chain_head_write(&c, 1, &head);
	works(chain_head_read(buf_head(&head), head.len, l->public, &l->head));
	split(l, &out);
	eq_int(l->n, LINES);
}

static void log_done(struct log *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->lines[i]);
	buf_done(&l->said);
	ed25519_free(l->key);
}

static void on_fault(void *arg, const char *file, uint64_t line, const char *what)
{
	struct log *l = arg;

	eq_str(file, "log");
	buf_printf(&l->said, "%llu: %s\n", (unsigned long long)line, what);
}

/* How many faults there are; said has them. */
static uint64_t check(struct log *l, const unsigned char *key)
{
	struct chain_check k = { .key = key, .head = &l->head, .fault = on_fault, .arg = l };

	chain_init(&k.at, NULL);
	buf_clear(&l->said);
	for (size_t i = 0; i < l->n; i++)
		chain_check_line(&k, "log", i + 1, l->lines[i], strlen(l->lines[i]));
	chain_check_end(&k, "log");
	chain_check_done(&k);
	return k.faults;
}

static void says(struct log *l, const char *text)
{
	is_true(check(l, l->public) > 0);
	if (!strstr(buf_str(&l->said), text))
		eq_str(buf_str(&l->said), text);
}

static void drop(struct log *l, size_t i)
{
	free(l->lines[i]);
	memmove(l->lines + i, l->lines + i + 1, (l->n - i - 1) * sizeof(l->lines[0]));
	l->n--;
}

static void edit(struct log *l, size_t i, const char *from, const char *to)
{
	char *at = strstr(l->lines[i], from);

	is_true(at && strlen(from) == strlen(to));
	memcpy(at, to, strlen(to));
}

TEST(a_chain_that_nobody_touched_has_no_fault)
{
	struct log l;

	log_init(&l);
	eq_int(check(&l, l.public), 0);
	log_done(&l);
}

TEST(a_changed_record_is_named)
{
	struct log l;

	log_init(&l);
	edit(&l, 2, "r1", "rX");
	says(&l, "4: record 3 is not what it was when record 4 was written");
	log_done(&l);
}

TEST(a_missing_record_is_named)
{
	struct log l;

	log_init(&l);
	drop(&l, 3);
	says(&l, "4: 1 records are missing before record 5");
	log_done(&l);
}

TEST(records_in_another_order_are_named)
{
	struct log l;
	char *line;

	log_init(&l);
	line = l.lines[2];
	l.lines[2] = l.lines[3];
	l.lines[3] = line;
	says(&l, "4: record 3 is out of order, or there twice: 5 was due");
	log_done(&l);
}

TEST(a_record_that_is_there_twice_is_named)
{
	struct log l;

	log_init(&l);
	memmove(l.lines + 3, l.lines + 2, (l.n - 2) * sizeof(l.lines[0]));
	l.lines[2] = xstrdup(l.lines[2]);
	l.n++;
	says(&l, "4: record 3 is out of order, or there twice: 4 was due");
	log_done(&l);
}

TEST(records_that_were_cut_off_at_the_end_are_named)
{
	struct log l;

	log_init(&l);
	drop(&l, l.n - 1);
	drop(&l, l.n - 1);
	says(&l, "records 13 to 14 were cut off at the end");
	log_done(&l);
}

/* Somebody without the key writes everything anew from a record on. */
static void rewrite(struct log *l, size_t from)
{
	autobuf out = { 0 };
	struct chain c;

	chain_init(&c, NULL);
	for (size_t i = 0; i < l->n; i++) {
		autofree char *rest = NULL;

		if (i < from) {
			is_true(chain_follow(&c, l->lines[i], strlen(l->lines[i])));
			continue;
		}
		rest = xasprintf("{%s", strchr(strstr(l->lines[i], "\"prev\""), ',') + 1);
		buf_clear(&out);
		chain_add(&c, rest, strlen(rest), &out);
		free(l->lines[i]);
		l->lines[i] = xstrndup(buf_head(&out), out.len - 1);
	}
}

TEST(what_was_written_anew_before_a_checkpoint_is_noticed_by_its_signature)
{
	struct log l;

	log_init(&l);
	edit(&l, 2, "r1", "rX");
	rewrite(&l, 3);
	says(&l, "7: checkpoint 7 is not signed with this key");
	log_done(&l);
}

TEST(what_was_written_anew_after_the_last_checkpoint_is_noticed_by_the_head)
{
	struct log l;

	log_init(&l);
	edit(&l, 9, "r6", "rX");
	rewrite(&l, 10);
	says(&l, "14: record 14 is not the one that was signed");
	log_done(&l);
}

TEST(a_missing_file_is_named)
{
	struct log l;

	log_init(&l);
	for (int i = 0; i < 7; i++)
		drop(&l, 0);
	says(&l, "1: files 1 to 1 are missing");
	log_done(&l);
}

TEST(a_head_of_another_key_is_refused)
{
	autobuf head = { 0 };
	struct chain_head h;
	struct chain c;
	struct log l, other;

	log_init(&l);
	log_init(&other);
	chain_init(&c, other.key);
	chain_head_write(&c, 1, &head);
	fails(chain_head_read(buf_head(&head), head.len, l.public, &h), ERR_INVALID);
	fails(chain_head_read("{", 1, NULL, &h), ERR_INVALID);
	log_done(&l);
	log_done(&other);
}

TEST(a_torn_line_is_a_fault_unless_the_next_says_so)
{
	autobuf out = { 0 };
	struct chain c;
	struct log l;

	log_init(&l);
	l.lines[l.n - 1][20] = '\0';
	says(&l, "the last line is cut short");
	/* As the server goes on after a crash; the head is of before. */
	l.head.n = 0;
	chain_init(&c, l.key);
	for (size_t i = 0; i < l.n - 1; i++)
		(void)chain_follow(&c, l.lines[i], strlen(l.lines[i]));
	chain_follow_torn(&c, l.lines[l.n - 1], strlen(l.lines[l.n - 1]));
	chain_add_torn(&c, 1, &out);
	l.lines[l.n++] = xstrndup(buf_head(&out), out.len - 1);
	eq_int(check(&l, l.public), 0);
	l.lines[l.n - 2][3] = 'x';
	is_true(check(&l, l.public) > 0);
	log_done(&l);
}
