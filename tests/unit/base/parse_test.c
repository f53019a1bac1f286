/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/clock.h"
#include "base/str.h"
#include "test.h"

TEST(integers_are_read_whole_or_not_at_all)
{
	static const struct {
		const char *text;
		int64_t value;
	} good[] = {
		{ "0", 0 },
		{ "-5", -5 },
		{ "9223372036854775807", INT64_MAX },
		{ "-9223372036854775808", INT64_MIN },
		{ "007", 7 },
	};
	static const char *const bad[] = { "", "-", "+1", " 1", "1 ", "1x", "0x1", "--1" };
	int64_t v = 77;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		works(parse_int(good[i].text, INT64_MIN, INT64_MAX, &v));
		eq_int(v, good[i].value);
	}
	v = 77;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fails(parse_int(bad[i], INT64_MIN, INT64_MAX, &v), ERR_MALFORMED);
	fails(parse_int("9223372036854775808", INT64_MIN, INT64_MAX, &v), ERR_INVALID);
	fails(parse_int("-9223372036854775809", INT64_MIN, INT64_MAX, &v), ERR_INVALID);
	fails(parse_int("0", 1, 65535, &v), ERR_INVALID);
	fails(parse_int("65536", 1, 65535, &v), ERR_INVALID);
	eq_int(v, 77);
}

TEST(unsigned_integers_stop_at_their_limit)
{
	uint64_t v;

	works(parse_uint("18446744073709551615", UINT64_MAX, &v));
	is_true(v == UINT64_MAX);
	fails(parse_uint("18446744073709551616", UINT64_MAX, &v), ERR_INVALID);
	fails(parse_uint("-1", 5, &v), ERR_MALFORMED);
	works(parse_uint("5", 5, &v));
	fails(parse_uint("6", 5, &v), ERR_INVALID);
}

TEST(booleans_have_four_words_each)
{
	static const char *const yes[] = { "true", "1", "yes", "on" };
	static const char *const no[] = { "false", "0", "no", "off" };
	bool b;

	for (size_t i = 0; i < 4; i++) {
		works(parse_bool(yes[i], &b));
		is_true(b);
		works(parse_bool(no[i], &b));
		is_false(b);
	}
	fails(parse_bool("True", &b), ERR_MALFORMED);
	fails(parse_bool("", &b), ERR_MALFORMED);
}

TEST(durations_are_sums_of_parts)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {
		{ "0", 0 },          { "500ms", 500 },  { "2s", 2000 },
		{ "5m", 300000 },    { "1h", 3600000 }, { "1m30s", 90000 },
		{ "1.5h", 5400000 }, { "0.25s", 250 },  { "1h0m0.5s", 3600500 },
		{ "1500us", 1 },
	};
	static const char *const bad[] = { "",    "1",     "s",
					   "1 s", "1d",    "-1s",
					   "1s5", "1..5s", "99999999999999999999h" };
	uint64_t ms;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		works(parse_duration_ms(good[i].text, &ms));
		eq_int(ms, good[i].ms);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fails(parse_duration_ms(bad[i], &ms), ERR_MALFORMED);
}

TEST(hex_is_written_in_lower_case)
{
	char text[7];

	hex_encode("\x00\xff\xa5", 3, text);
	eq_str(text, "00ffa5");
}

TEST(base64_goes_both_ways)
{
	static const struct {
		const char *raw, *std, *url;
	} rows[] = {
		{ "", "", "" },
		{ "f", "Zg==", "Zg" },
		{ "fo", "Zm8=", "Zm8" },
		{ "foo", "Zm9v", "Zm9v" },
		{ "foob", "Zm9vYg==", "Zm9vYg" },
		{ "\xfb\xff", "+/8=", "-_8" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (int url = 0; url < 2; url++) {
			const char *text = url ? rows[i].url : rows[i].std;
			autofree char *made = base64_encode(rows[i].raw, strlen(rows[i].raw), url);
			autofree void *back = NULL;
			size_t len;

			eq_str(made, text);
			works(base64_decode(text, url, &back, &len));
			eq_str(back, rows[i].raw);
			eq_int(len, strlen(rows[i].raw));
		}
	}
}

TEST(base64_has_one_text_per_value)
{
	static const char *const bad_std[] = { "Zg",       "Zg=",  "Zh==", "Zm9=", "Z===",
					       "Zg==Zg==", "Z g=", "-_8=", "====" };
	static const char *const bad_url[] = { "Zg==", "Z", "Zh", "+/8" };
	void *p = NULL;
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(bad_std); i++)
		fails(base64_decode(bad_std[i], false, &p, &len), ERR_MALFORMED);
	for (size_t i = 0; i < ARRAY_LEN(bad_url); i++)
		fails(base64_decode(bad_url[i], true, &p, &len), ERR_MALFORMED);
	is_true(!p);
}

static void decodes(const char *in, bool plus, const char *want)
{
	autofree char *text = NULL;
	size_t len;

	works(url_decode(in, strlen(in), plus, &text, &len));
	eq_str(text, want);
	eq_int(len, strlen(want));
}

TEST(urls_are_decoded_and_encoded)
{
	static const char *const bad[] = { "%", "%4", "%zz", "a%00b", "%4g" };
	autofree char *made = url_encode("a b/\xc3\xa9~-._");
	char *text = NULL;

	decodes("a%20b%2Fc", false, "a b/c");
	decodes("a+b", false, "a+b");
	decodes("a+b", true, "a b");
	decodes("", false, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fails(url_decode(bad[i], strlen(bad[i]), true, &text, NULL), ERR_MALFORMED);
	fails(url_decode("a\0b", 3, true, &text, NULL), ERR_MALFORMED);
	is_true(!text);
	eq_str(made, "a%20b%2F%C3%A9~-._");
}

TEST(times_are_read_and_written)
{
	static const struct {
		const char *text, *micro;
	} rows[] = {
		{ "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z" },
		{ "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.500000Z" },
		{ "2024-02-29T23:59:59.999999999Z", "2024-02-29T23:59:59.999999Z" },
		{ "2000-03-01T00:00:00+01:30", "2000-02-29T22:30:00.000000Z" },
		{ "1969-12-31T23:59:59.25-00:00", "1969-12-31T23:59:59.250000Z" },
		{ "1999-12-31t20:00:00-04:00", "2000-01-01T00:00:00.000000Z" },
		{ "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z" },
		{ "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000Z" },
	};
	char text[CLOCK_TEXT_MAX];
	usec t;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		works(clock_parse(rows[i].text, &t));
		clock_format_micro(t, text);
		eq_str(text, rows[i].micro);
	}
	clock_format(1767323045123456, text);
	eq_str(text, "2026-01-02T03:04:05Z");
	clock_format_nano(1767323045123456, text);
	eq_str(text, "2026-01-02T03:04:05.123456000Z");
}

TEST(what_is_not_a_time_is_rejected)
{
	static const char *const bad[] = {
		"",
		"2026-01-02",
		"2026-01-02T03:04:05",
		"2026-01-02 03:04:05Z",
		"2026-13-02T03:04:05Z",
		"2026-00-02T03:04:05Z",
		"2026-02-29T03:04:05Z",
		"2100-02-29T03:04:05Z",
		"2026-01-32T03:04:05Z",
		"2026-01-02T24:00:00Z",
		"2026-01-02T03:60:05Z",
		"2026-01-02T03:04:60Z",
		"2026-01-02T03:04:05.Z",
		"2026-01-02T03:04:05Zx",
		"2026-01-02T03:04:05+0100",
		"2026-01-02T03:04:05+24:00",
		"26-01-02T03:04:05Z",
	};
	usec t = 7;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fails(clock_parse(bad[i], &t), ERR_MALFORMED);
	eq_int(t, 7);
}

TEST(every_day_of_four_centuries_goes_both_ways)
{
	char text[CLOCK_TEXT_MAX];

	for (int64_t day = -73000; day < 73097; day++) {
		usec t = day * 86400 * 1000000 + 1, back;

		clock_format_micro(t, text);
		works(clock_parse(text, &back));
		eq_int(t, back);
	}
}
