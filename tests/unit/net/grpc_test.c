/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc.h"

#include "base/buf.h"
#include "test.h"

TEST(timeouts_of_grpc_have_units_and_are_rounded_up)
{
	static const struct {
		const char *text;
		int64_t us; /* -1: none */
	} rows[] = {
		{ "1S", 1000000 },
		{ "250m", 250000 },
		{ "2M", 120000000 },
		{ "1H", 3600000000 },
		{ "1500u", 1500 },
		{ "0S", 0 },
		{ "1n", 1 },
		{ "999n", 1 },
		{ "1000n", 1 },
		{ "1001n", 2 },
		{ "0n", 0 },
		{ "99999999H", 359999996400000000 },
		{ "99999999n", 100000 },
		{ "00000001S", 1000000 },
		{ "", -1 },
		{ "S", -1 },
		{ "5", -1 },
		{ "123456789S", -1 },
		{ "000000001S", -1 },
		{ "-1S", -1 },
		{ " 1S", -1 },
		{ "1 S", -1 },
		{ "1S ", -1 },
		{ "1s", -1 },
		{ "1SS", -1 },
		{ "1.5S", -1 },
		{ "1h", -1 },
		{ "1\xc2\xb5", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		usec us = 7;
		bool is = grpc_timeout_read(rows[i].text, &us);

		eq_int(is ? us : -1, rows[i].us);
		is_true(is || us == 7); /* written on success only */
	}
}

TEST(a_message_of_grpc_has_no_line_of_its_own)
{
	autobuf b = { 0 };

	grpc_message_put(&b, "50% of \r\n\x7f\xc3\xa9~");
	eq_str(buf_str(&b), "50%25 of %0D%0A%7F%C3%A9~");
}
