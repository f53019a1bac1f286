/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/effort.h"

#include "server/call/call.h"
#include "test.h"

/*
 * Users who ask again as soon as they are answered, on a clock of our own: who is asked for next is
 * whoever has waited longest, and one who is refused asks again a little later.
 */
static const char *const people[] = { "system:authenticated", NULL };
static const char *const masters[] = { "system:masters", "system:authenticated", NULL };

struct client {
	struct user user;
	usec cost, pause; /* of a request, and between two of them */
	usec due;
	usec spent;
	unsigned n_served, n_refused;
};

enum {
	SECOND = 1000 * 1000,
	RETRY = SECOND / 50, /* sooner than Retry-After says */
};

static void ask(struct effort *e, struct client *c, usec *now)
{
	struct err *refused = effort_check(e, &c->user, *now);

	if (refused) {
		c->n_refused++;
		err_free(refused);
		c->due = *now + RETRY;
		return;
	}
	*now += c->cost;
	effort_add(e, &c->user, *now, c->cost);
	c->spent += c->cost;
	c->n_served++;
	c->due = *now + c->pause;
}

static void run(struct effort *e, struct client *list, size_t n, usec *now, usec for_us)
{
	usec end = *now + for_us;

	while (*now < end) {
		struct client *next = &list[0];

		for (size_t i = 1; i < n; i++)
			if (list[i].due < next->due)
				next = &list[i];
		*now = MAX(*now, next->due);
		ask(e, next, now);
	}
}

TEST(who_asks_alone_is_never_refused)
{
	struct client noisy = { .user = { .name = "noisy", .groups = people }, .cost = 30 * 1000 };
	usec now = 77 * SECOND;
	struct effort e;

	effort_init(&e);
	run(&e, &noisy, 1, &now, 10 * SECOND);
	eq_int(noisy.n_refused, 0);
	effort_done(&e);
}

TEST(a_noisy_user_leaves_half_of_the_time_to_a_quiet_one)
{
	struct client list[] = {
		{ .user = { .name = "noisy", .groups = people }, .cost = 30 * 1000 },
		{ .user = { .name = "quiet", .groups = people }, .cost = 100, .pause = 5000 },
	};
	usec now = 77 * SECOND;
	struct effort e;

	effort_init(&e);
	run(&e, list, 1, &now, 5 * SECOND); /* it has had everything so far */
	list[0] = (struct client){ .user = list[0].user, .cost = list[0].cost, .due = now };
	list[1].due = now;
	run(&e, list, 2, &now, 10 * SECOND);
	eq_int(list[1].n_refused, 0);
	is_true(list[0].n_refused > 50);
	is_true(list[0].spent < 6 * SECOND && list[0].spent > 4 * SECOND);
	is_true(list[1].n_served > 10 * SECOND / (5000 + 30 * 1000)); /* more than in turns */
	list[0].n_refused = 0;
	now += 3 * SECOND; /* the quiet one has gone */
	run(&e, list, 1, &now, 5 * SECOND);
	eq_int(list[0].n_refused, 0);
	effort_done(&e);
}

TEST(users_who_all_want_everything_have_equal_parts)
{
	struct client list[] = {
		{ .user = { .name = "a", .groups = people }, .cost = 20 * 1000 },
		{ .user = { .name = "b", .groups = people }, .cost = 1000 },
		{ .user = { .name = "c", .groups = people, .by = "a" }, .cost = 20 * 1000 },
		{ .user = { .name = "d", .groups = people }, .cost = 5000 },
	};
	usec now = 77 * SECOND, a;
	struct effort e;

	effort_init(&e);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		list[i].due = now;
	run(&e, list, ARRAY_LEN(list), &now, 30 * SECOND);
	a = list[0].spent + list[2].spent; /* who acts as c is a */
	is_true(list[1].spent > 7 * SECOND && list[3].spent > 7 * SECOND);
	is_true(a > 7 * SECOND && a < 13 * SECOND);
	effort_done(&e);
}

TEST(administrators_are_never_refused_and_cost_others_nothing_below_their_part)
{
	struct client list[] = {
		{ .user = { .name = "admin", .groups = masters }, .cost = 30 * 1000 },
		{ .user = { .name = "modest", .groups = people }, .cost = 1000, .pause = 9000 },
	};
	usec now = 77 * SECOND;
	struct effort e;

	effort_init(&e);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		list[i].due = now;
	run(&e, list, ARRAY_LEN(list), &now, 10 * SECOND);
	eq_int(list[0].n_refused, 0);
	eq_int(list[1].n_refused, 0);
	effort_done(&e);
}

TEST(while_requests_take_less_than_half_of_the_time_nobody_is_refused)
{
	struct client list[] = {
		{ .user = { .name = "most", .groups = people }, .cost = 4000, .pause = 7000 },
		{ .user = { .name = "some", .groups = people }, .cost = 100, .pause = 9000 },
		{ .user = { .name = "more", .groups = people }, .cost = 100, .pause = 9000 },
	};
	struct client noisy = { .user = { .name = "noisy", .groups = people }, .cost = 30 * 1000 };
	usec now = 77 * SECOND;
	struct effort e;

	effort_init(&e);
	noisy.due = now;
	run(&e, &noisy, 1, &now, 5 * SECOND);
	now += 3 * SECOND; /* that is past */
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		list[i].due = now;
	run(&e, list, ARRAY_LEN(list), &now, 10 * SECOND);
	is_true(list[0].spent > 10 * SECOND / 3); /* more than an equal part */
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		eq_int(list[i].n_refused, 0);
	effort_done(&e);
}

TEST(the_accounts_of_a_namespace_have_one_share)
{
	struct client list[11] = {
		{ .user = { .name = "ann", .groups = people }, .cost = SECOND / 100 },
	};
	static const char *const names[] = {
		"system:serviceaccount:a:0", "system:serviceaccount:a:1",
		"system:serviceaccount:a:2", "system:serviceaccount:a:3",
		"system:serviceaccount:a:4", "system:serviceaccount:a:5",
		"system:serviceaccount:a:6", "system:serviceaccount:a:7",
		"system:serviceaccount:a:8", "system:serviceaccount:a:9",
	};
	usec now = 10 * SECOND, theirs = 0;
	struct effort e;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		list[i + 1] = (struct client){ .user = { .name = names[i], .groups = people },
					       .cost = SECOND / 100 };
	effort_init(&e);
	run(&e, list, ARRAY_LEN(list), &now, 20 * SECOND);
	for (size_t i = 1; i < ARRAY_LEN(list); i++)
		theirs += list[i].spent;
	is_true(list[0].spent * 10 > theirs * 7);
	effort_done(&e);
}
