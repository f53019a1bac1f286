/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audit/reader.h"
#include "base/file.h"
#include "crypto/crypto.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct audit_filter all = { .chain = true };

static uint64_t number_of(const char *p, size_t len)
{
	autoptr(json_doc) d = NULL;
	struct err *e = json_parse(p, len, NULL, &d);

	if (e || memchr(p, '\n', len))
		abort();
	return (uint64_t)json_get_int(json_root(d), "n", 0);
}

/* Pages go back to the first, and no number comes twice. */
static void read_pages(const char *path)
{
	uint64_t before = 0, last = UINT64_MAX;

	do {
		autoptr(audit_page) p =
			audit_page_new(&(struct audit_page_spec){ path, &all, before, 3 });
		bool over = false;

		while (!over)
			if (audit_page_step(p, &over))
				abort();
		for (size_t i = audit_page_len(p); i > 0; i--) {
			struct span line = audit_page_line(p, i - 1);
			uint64_t n = number_of(line.p, line.len);

			if (!n || n >= last)
				abort();
			last = n;
		}
		if (before && audit_page_next(p) >= before)
			abort();
		before = audit_page_next(p);
	} while (before);
}

/* Numbers rise, and gaps are between them. */
static void read_on(const char *path, uint64_t after)
{
	autoptr(audit_cursor) c =
		audit_cursor_new(&(struct audit_cursor_spec){ path, &all, after });
	uint64_t last = after;
	size_t left = SIZE_MAX;
	bool end = false;

	while (!end) {
		autobuf out = { 0 };
		struct span rest;

		if (audit_cursor_step(c, &out, &left, &end))
			abort();
		rest = (struct span){ out.len ? buf_head(&out) : "", out.len };
		while (rest.len) {
			struct span line = span_cut(rest, '\n', &rest);
			uint64_t n = line.len ? number_of(line.p, line.len) : 0;

			if (n && n <= last)
				abort();
			last = n ? n : last;
		}
	}
	if (audit_cursor_last(c) < last)
		abort();
}

static void verify(const char *path)
{
	static const unsigned char key[ED25519_KEY_LEN];
	autoptr(audit_verify) v = NULL;
	struct audit_verdict said;
	bool over = false;

	if (audit_verify_open(path, key, &v))
		abort();
	while (!over)
		if (audit_verify_step(v, 100, &over))
			abort();
	said = audit_verify_verdict(v);
	if (said.bytes != said.of || !said.faults) /* there is no head */
		abort();
}

/* A log may hold anything: somebody may have changed it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autoclose fd = memfd_create("audit", MFD_CLOEXEC);
	char path[64];

	if (fd < 0 || fd_write_all(fd, data, len))
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_pages(path);
	read_on(path, 0);
	read_on(path, 3);
	verify(path);
	return 0;
}
