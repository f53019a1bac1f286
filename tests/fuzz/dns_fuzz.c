/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
#include "node/network/dns_packet.h"
#include "node/network/resolv_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is taken from an answer must make one of our own. */
static void read_answer(const uint8_t *data, size_t len, const struct dns_query *q,
			const uint8_t *query)
{
	struct dns_answer found;
	autobuf out = { 0 };
	struct err *e = dns_answer_read(data, len, q, DNS_ADDRS_MAX / 4, &found);

	if (!e && found.n_addrs > DNS_ADDRS_MAX / 4)
		abort();
	if (!e)
		e = dns_answer_write(query, q, &found, DNS_UDP_MAX, &out);
	err_free(e);
}

/* The bytes as the answer of a server to a plain question. */
static void read_reply(const uint8_t *data, size_t len)
{
	static const uint8_t query[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\3web\7example\0\0\1\0\1";
	struct dns_query q;
	enum dns_code code;
	struct err *e = dns_query_read(query, sizeof(query) - 1, &q, &code);

	if (e)
		abort();
	read_answer(data, len, &q, query);
	q.type = DNS_AAAA;
	read_answer(data, len, &q, query);
}

/* Reads the bytes as a query, answers it in each way, and takes the answer for that of a server.
 * The same bytes are an answer, and a host's resolv.conf, as well. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct dns_answer answers[] = {
		{ .code = DNS_NXDOMAIN },
		{ .n_addrs = DNS_ADDRS_MAX, .ttl = 5, .authoritative = true },
		{ .target = "a.b.example.", .target_type = DNS_CNAME, .n_addrs = 1 },
		{ .places = { { "a.b.example.", 80 }, { "c.", 65535 } }, .n_places = 2 },
	};
	autofree char *text = xstrndup((const char *)data, len);
	struct resolv_conf conf;
	struct dns_query q;
	enum dns_code code;
	struct err *e = dns_query_read(data, len, &q, &code);

	read_reply(data, len);
	resolv_conf_read(text, &conf);
	for (size_t i = 0; !e && i < ARRAY_LEN(answers); i++) {
		autobuf out = { 0 };
		struct err *wrong = dns_answer_write(data, &q, &answers[i], DNS_UDP_MAX, &out);

		if (!wrong &&
		    !dns_answers((const uint8_t *)buf_head(&out), out.len, data, &q, q.id))
			abort();
		if (!wrong)
			read_answer((const uint8_t *)buf_head(&out), out.len, &q, data);
		err_free(wrong);
	}
	err_free(e);
	return 0;
}
