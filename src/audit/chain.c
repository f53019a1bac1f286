/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/chain.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "json/json.h"

static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

void chain_init(struct chain *c, const struct ed25519 *key)
{
	*c = (struct chain){ .key = key };
	memcpy(c->hash, zeros, sizeof(c->hash));
}

static void hash_line(const char *line, size_t len, char ret[CHAIN_HASH_LEN])
{
	unsigned char digest[SHA256_LEN];

	sha256(line, len, digest);
	hex_encode(digest, sizeof(digest), ret);
}

static void begin_line(const struct chain *c, struct buf *out)
{
	buf_printf(out, "{\"n\":%llu,\"prev\":\"%s\"", (unsigned long long)c->n + 1, c->hash);
}

/* The line begins at start; its end and its hash follow. */
static void end_line(struct chain *c, struct buf *out, size_t start)
{
	c->n++;
	c->since++;
	hash_line(buf_head(out) + start, out->len - start, c->hash);
	buf_add_char(out, '\n');
}

void chain_add(struct chain *c, const char *rest, size_t len, struct buf *out)
{
	size_t start = out->len;

	begin_line(c, out);
	buf_add_char(out, ',');
	buf_add(out, rest + 1, len - 1);
	end_line(c, out, start);
}

static void add_own(struct chain *c, usec now, const char *member, struct buf *out)
{
	size_t start = out->len;
	char when[CLOCK_TEXT_MAX];

	clock_format_micro(now, when);
	begin_line(c, out);
	buf_printf(out, ",\"time\":\"%s\",%s}", when, member);
	end_line(c, out, start);
}

void chain_add_begin(struct chain *c, usec now, struct buf *out)
{
	char member[40];

	c->segment++;
	(void)snprintf(member, sizeof(member), "\"begin\":%llu", (unsigned long long)c->segment);
	add_own(c, now, member, out);
}

void chain_add_torn(struct chain *c, usec now, struct buf *out)
{
	add_own(c, now, "\"torn\":true", out);
}

void chain_add_missing(struct chain *c, usec now, const struct chain_head *h, struct buf *out)
{
	autofree char *member = xasprintf("\"missing\":{\"n\":%llu,\"hash\":\"%s\"}",
					  (unsigned long long)h->n, h->hash);

	add_own(c, now, member, out);
}

/* What is signed cannot pass for anything else that this key may sign. */
static char *signed_text(const char *what, const struct chain_head *h)
{
	return xasprintf("cay audit %s\n%llu\n%s\n%llu\n%llu\n", what, (unsigned long long)h->n,
			 h->hash, (unsigned long long)h->segment, (unsigned long long)h->oldest);
}

static char *signature_of(const struct chain *c, const char *what, const struct chain_head *h)
{
	autofree char *text = signed_text(what, h);
	unsigned char signature[ED25519_SIGNATURE_LEN];

	ed25519_sign(c->key, text, strlen(text), signature);
	return base64_encode(signature, sizeof(signature), false);
}

static bool signature_good(const unsigned char *key, const char *what, const struct chain_head *h,
			   const char *signature)
{
	autofree char *text = signed_text(what, h);
	autofree void *bytes = NULL;
	size_t len = 0;
	autoptr(err) e = base64_decode(str_or(signature, ""), false, &bytes, &len);

	return !e && len == ED25519_SIGNATURE_LEN &&
	       ed25519_verifies(key, text, strlen(text), bytes);
}

static struct chain_head head_of(const struct chain *c, uint64_t oldest)
{
	struct chain_head h = { .n = c->n, .segment = c->segment, .oldest = oldest };

	memcpy(h.hash, c->hash, sizeof(h.hash));
	return h;
}

void chain_add_checkpoint(struct chain *c, usec now, struct buf *out)
{
	const struct chain_head h = head_of(c, 0);
	autofree char *signature = NULL, *member = NULL;

	if (!c->key)
		return;
	signature = signature_of(c, "checkpoint", &h);
	member = xasprintf("\"checkpoint\":\"%s\"", signature);
	add_own(c, now, member, out);
	c->since = 0;
}

bool chain_follow(struct chain *c, const char *line, size_t len)
{
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(line, len, NULL, &d);
	const struct json *root = e ? NULL : json_root(d);
	int64_t n = json_get_int(root, "n", 0), segment;

	if (e || n <= 0 || !json_get_str(root, "prev"))
		return false;
	segment = json_get_int(root, "begin", 0);
	if (segment > 0)
		c->segment = (uint64_t)segment;
	c->n = (uint64_t)n;
	c->since = json_get(root, "checkpoint") ? 0 : c->since + 1;
	hash_line(line, len, c->hash);
	return true;
}

void chain_follow_torn(struct chain *c, const char *line, size_t len)
{
	c->n++;
	hash_line(line, len, c->hash);
}

void chain_head_write(const struct chain *c, uint64_t oldest, struct buf *out)
{
	const struct chain_head h = head_of(c, oldest);
	autofree char *signature = c->key ? signature_of(c, "head", &h) : xstrdup("");

	buf_printf(out,
		   "{\"n\":%llu,\"hash\":\"%s\",\"segment\":%llu,\"oldest\":%llu,"
		   "\"signature\":\"%s\"}\n",
		   (unsigned long long)h.n, h.hash, (unsigned long long)h.segment,
		   (unsigned long long)h.oldest, signature);
}

struct err *chain_head_read(const char *text, size_t len, const unsigned char *key,
			    struct chain_head *ret)
{
	autoptr(json_doc) d = NULL;
	struct err *e = json_parse(text, len, NULL, &d);
	const struct json *root;
	struct chain_head h = { 0 };
	const char *hash;

	if (e)
		return err_wrap(err_recode(e, ERR_INVALID), "read the head of the audit log");
	root = json_root(d);
	hash = json_get_str(root, "hash");
	if (!hash || strlen(hash) != CHAIN_HASH_LEN - 1)
		return err_new(ERR_INVALID, "the head of the audit log has no hash");
	h.n = (uint64_t)MAX(json_get_int(root, "n", 0), (int64_t)0);
	h.segment = (uint64_t)MAX(json_get_int(root, "segment", 0), (int64_t)0);
	h.oldest = (uint64_t)MAX(json_get_int(root, "oldest", 0), (int64_t)0);
	memcpy(h.hash, hash, CHAIN_HASH_LEN);
	if (key && !signature_good(key, "head", &h, json_get_str(root, "signature")))
		return err_new(ERR_INVALID,
			       "the head of the audit log is not signed with this key");
	*ret = h;
	return NULL;
}

/* The check */

static void fault(struct chain_check *k, const char *file, uint64_t line, const char *fmt, ...)
	printf_like(4, 5);
static void fault(struct chain_check *k, const char *file, uint64_t line, const char *fmt, ...)
{
	autobuf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	k->faults++;
	k->fault(k->arg, file, line, buf_str(&text));
}

static void check_checkpoint(struct chain_check *k, const char *file, uint64_t number,
			     const struct json *root, const struct chain *before)
{
	const struct chain_head h = head_of(before, 0);

	if (!json_get(root, "checkpoint"))
		return;
	k->checkpoints++;
	if (!k->key)
		return;
	if (signature_good(k->key, "checkpoint", &h, json_get_str(root, "checkpoint")))
		k->signed_n = before->n;
	else
		fault(k, file, number,
		      "checkpoint %llu is not signed with this key: it is forged, or what it signs "
		      "was written anew",
		      (unsigned long long)before->n + 1);
}

static void check_missing(struct chain_check *k, const char *file, uint64_t number,
			  const struct json *root)
{
	int64_t to = json_get_int(json_get(root, "missing"), "n", 0);

	if (!json_get(root, "missing"))
		return;
	if (to)
		fault(k, file, number,
		      "records up to %lld were cut off before the server was started again",
		      (long long)to);
	else
		fault(k, file, number,
		      "where the log ended was not known any more when the server was started "
		      "again: records before this one may have been cut off");
}

/* Where the number tells what happened, say it; otherwise the line before is not what it was. */
static void check_link(struct chain_check *k, const char *file, uint64_t number, int64_t n,
		       const char *prev)
{
	int64_t want = (int64_t)k->at.n + 1;

	if (n > want)
		fault(k, file, number, "%lld records are missing before record %lld",
		      (long long)(n - want), (long long)n);
	else if (n < want)
		fault(k, file, number, "record %lld is out of order, or there twice: %lld was due",
		      (long long)n, (long long)want);
	else if (!str_eq(prev, k->at.hash))
		fault(k, file, number,
		      "record %lld is not what it was when record %lld was written",
		      (long long)(n - 1), (long long)n);
}

static void check_begin(struct chain_check *k, const char *file, uint64_t number,
			const struct json *root)
{
	int64_t segment = json_get_int(root, "begin", 0);

	if (!k->began && k->head && segment && (uint64_t)segment > k->head->oldest)
		fault(k, file, number, "files %llu to %lld are missing",
		      (unsigned long long)k->head->oldest, (long long)segment - 1);
	if (segment && k->at.segment && (uint64_t)segment != k->at.segment + 1)
		fault(k, file, number, "file %lld follows file %llu", (long long)segment,
		      (unsigned long long)k->at.segment);
}

/* A line that was cut by a crash has a line after it that says so. */
static void check_torn(struct chain_check *k, const char *file, uint64_t number,
		       const struct json *root)
{
	if (!k->torn)
		return;
	if (!json_get(root, "torn"))
		fault(k, file, number - 1, "this is not a line of the log");
	else
		chain_follow_torn(&k->at, k->torn, k->torn_len);
	free(take(k->torn));
}

void chain_check_line(struct chain_check *k, const char *file, uint64_t number, const char *line,
		      size_t len)
{
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(line, len, NULL, &d);
	const struct json *root = e ? NULL : json_root(d);
	int64_t n = json_get_int(root, "n", 0);
	struct chain before;

	k->lines++;
	if (!k->began && !n && !e)
		return; /* written before there was a chain */
	if (e || n <= 0) {
		if (k->torn)
			fault(k, file, number - 1, "this is not a line of the log");
		free(k->torn);
		k->torn = xmemdup(line, len);
		k->torn_len = len;
		return;
	}
	check_torn(k, file, number, root);
	if (k->began)
		check_link(k, file, number, n, json_get_str(root, "prev"));
	check_begin(k, file, number, root);
	check_missing(k, file, number, root);
	before = k->at;
	before.n = (uint64_t)n - 1;
	if (!k->began)
		(void)snprintf(before.hash, sizeof(before.hash), "%s",
			       str_or(json_get_str(root, "prev"), ""));
	check_checkpoint(k, file, number, root, &before);
	(void)chain_follow(&k->at, line, len);
	k->began = true;
	if (k->head && k->head->n == k->at.n && !str_eq(k->head->hash, k->at.hash))
		fault(k, file, number, "record %lld is not the one that was signed", (long long)n);
}

void chain_check_end(struct chain_check *k, const char *file)
{
	if (k->torn)
		fault(k, file, k->lines, "the last line is cut short");
	if (k->head && k->head->n > k->at.n)
		fault(k, file, k->lines, "records %llu to %llu were cut off at the end",
		      (unsigned long long)k->at.n + 1, (unsigned long long)k->head->n);
}

void chain_check_done(struct chain_check *k)
{
	free(take(k->torn));
}
