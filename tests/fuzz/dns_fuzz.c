/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
#include "node/network/dns_packet.h"
#include "node/network/resolv_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Reads the bytes as a query, answers it in each way, and takes the answer for that of a server.
 * The same bytes are a host's resolv.conf as well. */
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

	resolv_conf_read(text, &conf);
	for (size_t i = 0; !e && i < ARRAY_LEN(answers); i++) {
		autobuf out = { 0 };
		struct err *wrong = dns_answer_write(data, &q, &answers[i], DNS_UDP_MAX, &out);

		if (!wrong &&
		    !dns_answers((const uint8_t *)buf_head(&out), out.len, data, &q, q.id))
			abort();
		err_free(wrong);
	}
	err_free(e);
	return 0;
}
