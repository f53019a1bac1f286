/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"

#include "api/meta.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "test.h"

TEST(the_name_of_an_event_fits_and_differs_each_time)
{
	autoptr(json_doc) d = json_doc_new();
	char about[254];
	const char *a, *b;

	memset(about, 'x', 253);
	about[253] = '\0';
	a = json_str(event_name(d, about));
	b = json_str(event_name(d, about));
	is_true(!meta_bad_dns_subdomain(a));
	is_true(!str_eq(a, b));
}

TEST(the_text_of_an_event_is_cut_between_characters)
{
	autoptr(json_doc) d = json_doc_new();
	char text[2001];

	for (size_t i = 0; i < 2000; i++)
		text[i] = "\xc3\xa4"[(i + 1) % 2];
	text[0] = 'x'; /* so that byte 1024 is inside a character */
	text[2000] = '\0';
	eq_int(strlen(json_str(event_text(d, text))), 1023);
	eq_str(json_str(event_text(d, "short")), "short");
}
