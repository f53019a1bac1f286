/* SPDX-License-Identifier: Apache-2.0 */
#include "json/record.h"

#include "base/arena.h"
#include "base/macros.h"
#include "json/json.h"
#include "test.h"

struct wheel {
	unsigned spokes;
	const char *maker;
};

struct cart {
	const char *name;
	const char **loads;
	bool covered;
	int level;
	uint32_t id;
	int64_t weight;
	struct wheel spare;
	struct wheel *wheels;
	size_t n_wheels;
};

static const struct record_field wheel_fields[] = {
	RECORD(struct wheel, spokes, RECORD_UINT),
	RECORD(struct wheel, maker, RECORD_STR),
	{ 0 },
};

static const struct record_field cart_fields[] = {
	RECORD(struct cart, name, RECORD_STR),
	RECORD(struct cart, loads, RECORD_STRS),
	RECORD(struct cart, covered, RECORD_BOOL),
	RECORD(struct cart, level, RECORD_INT),
	RECORD(struct cart, id, RECORD_UINT32),
	RECORD(struct cart, weight, RECORD_INT64),
	RECORD_IN(struct cart, spare, wheel_fields),
	RECORD_MANY(struct cart, wheels, n_wheels, wheel_fields),
	{ 0 },
};

static char *text_of(const struct cart *c)
{
	autoptr(json_doc) d = json_doc_new();

	return json_to_text(record_write(d, cart_fields, c));
}

static struct err *read_text(const char *text, struct arena *a, struct cart *ret)
{
	autoptr(json_doc) d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return record_read(json_root(d), cart_fields, a, ret);
}

TEST(a_record_reads_back_as_it_was_written)
{
	autoptr(arena) a = arena_new();
	const char *loads[] = { "sand", "shells", NULL };
	struct wheel wheels[] = { { 12, "ann" }, { 14, NULL } };
	const struct cart c = { "first",   loads,        true,   -3, UINT32_MAX,
				1LL << 40, { 8, "bob" }, wheels, 2 };
	autofree char *text = text_of(&c), *again = NULL;
	struct cart got;

	works(read_text(text, a, &got));
	again = text_of(&got);
	eq_str(again, text);
	eq_str(got.loads[1], "shells");
	is_true(!got.loads[2]);
	eq_int(got.weight, 1LL << 40);
	eq_int(got.spare.spokes, 8);
	eq_int(got.n_wheels, 2);
	eq_int(got.wheels[1].spokes, 14);
	is_true(!got.wheels[1].maker);
}

TEST(absent_members_are_read_as_zero_and_unknown_ones_are_ignored)
{
	autoptr(arena) a = arena_new();
	struct cart got;

	memset(&got, 0xff, sizeof(got));
	works(read_text("{\"level\":2,\"from_the_future\":[1]}", a, &got));
	eq_int(got.level, 2);
	is_true(!got.name && !got.loads && !got.covered && !got.id && !got.weight);
	is_true(!got.spare.spokes && !got.spare.maker && !got.wheels && !got.n_wheels);
}

TEST(a_value_of_the_wrong_type_or_size_is_malformed)
{
	static const char *const rows[] = {
		"[]",
		"{\"name\":1}",
		"{\"loads\":\"sand\"}",
		"{\"loads\":[1]}",
		"{\"covered\":1}",
		"{\"level\":2147483648}",
		"{\"level\":1.5}",
		"{\"id\":-1}",
		"{\"id\":4294967296}",
		"{\"weight\":18446744073709551615}",
		"{\"spare\":[]}",
		"{\"wheels\":{}}",
		"{\"wheels\":[{\"spokes\":\"many\"}]}",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(arena) a = arena_new();
		struct cart got;

		fails(read_text(rows[i], a, &got), ERR_MALFORMED);
	}
}
