/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/line.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/random.h"
#include "loop/loop.h"
#include "test.h"

/* A shop with a stock and its customers; what happens is written down. */
struct shop {
	struct loop *loop;
	struct line line;
	unsigned stock;
	struct buf log;
};

struct customer {
	struct runtime_wait wait;
	struct shop *shop;
	char name;
	bool lost_interest;
};

static unsigned stock_of(void *arg, unused bool later)
{
	struct shop *s = arg;

	return s->stock;
}

static void ask(struct customer *c)
{
	if (!line_ask(&c->shop->line, &c->wait)) {
		buf_printf(&c->shop->log, "%c? ", c->name);
		return;
	}
	c->shop->stock--;
	buf_printf(&c->shop->log, "%c! ", c->name);
}

static void on_called(struct runtime_wait *w)
{
	struct customer *c = container_of(w, struct customer, wait);

	if (c->lost_interest)
		buf_printf(&c->shop->log, "%c- ", c->name);
	else
		ask(c);
}

static void open_shop(struct shop *s, struct customer *c, size_t n)
{
	*s = (struct shop){ 0 };
	works(loop_new(&s->loop));
	line_init(&s->line, s->loop, stock_of, s);
	for (size_t i = 0; i < n; i++) {
		c[i] = (struct customer){ .shop = s, .name = (char)('a' + i) };
		list_init(&c[i].wait.on);
		c[i].wait.ready = on_called;
	}
}

static void close_shop(struct shop *s)
{
	line_done(&s->line);
	buf_done(&s->log);
	(void)loop_turn(s->loop, 0);
	loop_free(s->loop);
}

static void arrives(struct shop *s, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		s->stock++;
		line_stocked(&s->line);
	}
	while (timer_armed(s->line.next))
		(void)loop_turn(s->loop, 20);
}

TEST(a_line_serves_those_first_who_came_first)
{
	struct customer c[3];
	struct shop s;

	open_shop(&s, c, 3);
	for (int i = 0; i < 3; i++)
		ask(&c[i]);
	arrives(&s, 1);
	arrives(&s, 2);
	eq_str(buf_str(&s.log), "a? b? c? a! b! c! ");
	close_shop(&s);
}

TEST(one_thing_in_stock_calls_one_waiter)
{
	struct customer c[3];
	struct shop s;

	open_shop(&s, c, 3);
	for (int i = 0; i < 3; i++)
		ask(&c[i]);
	arrives(&s, 1);
	eq_str(buf_str(&s.log), "a? b? c? a! ");
	is_false(list_empty(&c[1].wait.on));
	close_shop(&s);
}

TEST(a_thing_that_the_called_one_does_not_want_goes_to_the_next)
{
	struct customer c[3];
	struct shop s;

	open_shop(&s, c, 3);
	for (int i = 0; i < 3; i++)
		ask(&c[i]);
	c[0].lost_interest = true;
	list_del(&c[1].wait.on); /* it left the line by itself */
	arrives(&s, 1);
	eq_str(buf_str(&s.log), "a? b? c? a- c! ");
	close_shop(&s);
}

TEST(a_newcomer_does_not_get_ahead_of_the_line)
{
	struct customer c[3];
	struct shop s;

	open_shop(&s, c, 3);
	ask(&c[0]);
	s.stock = 1;
	ask(&c[1]); /* before anybody was called */
	arrives(&s, 0);
	ask(&c[1]); /* keeps its place */
	eq_str(buf_str(&s.log), "a? b? a! b? ");
	arrives(&s, 1);
	eq_str(buf_str(&s.log), "a? b? a! b? b! ");
	close_shop(&s);
}

TEST(whoever_is_in_a_hurry_goes_before_those_who_are_not)
{
	struct customer c[4];
	struct shop s;

	open_shop(&s, c, 4);
	c[0].wait.later = c[1].wait.later = true;
	for (int i = 0; i < 4; i++)
		ask(&c[i]);
	is_true(line_hurries(&s.line));
	eq_int(line_len(&s.line, 3), 3);
	eq_int(line_len(&s.line, 9), 4);
	arrives(&s, 3);
	eq_str(buf_str(&s.log), "a? b? c? d? c! d! a! ");
	is_false(line_hurries(&s.line));
	close_shop(&s);
}

TEST(what_is_spoken_for_is_not_given_to_another)
{
	struct customer c[2];
	struct shop s;

	open_shop(&s, c, 2);
	ask(&c[0]);
	s.stock = 1;
	c[0].lost_interest = true; /* when it is called; it asks later in the same turn */
	line_stocked(&s.line);
	ask(&c[1]);
	ask(&c[0]);
	eq_str(buf_str(&s.log), "a? a- b? a! ");
	close_shop(&s);
}

TEST(all_are_called_once_to_tell_of_trouble)
{
	struct customer c[3];
	struct shop s;

	open_shop(&s, c, 3);
	for (int i = 0; i < 3; i++)
		ask(&c[i]);
	is_true(line_trouble_is(&s.line, "out of paper"));
	is_false(line_trouble_is(&s.line, "out of paper"));
	eq_str(buf_str(&s.log), "a? b? c? "); /* never from within a call */
	arrives(&s, 0);
	eq_str(buf_str(&s.log), "a? b? c? a? b? c? ");
	arrives(&s, 3);
	eq_str(buf_str(&s.log), "a? b? c? a? b? c? a! b! c! ");
	close_shop(&s);
}

TEST(a_called_waiter_that_asks_too_late_still_goes_first)
{
	struct customer c[3];
	struct shop s;

	open_shop(&s, c, 3);
	for (int i = 0; i < 3; i++)
		ask(&c[i]);
	c[0].lost_interest = true; /* for now */
	arrives(&s, 1);            /* until its time is over and the next was called */
	eq_str(buf_str(&s.log), "a? b? c? a- b! ");
	c[0].lost_interest = false;
	ask(&c[0]);
	arrives(&s, 1);
	arrives(&s, 1);
	eq_str(buf_str(&s.log), "a? b? c? a- b! a? a! c! ");
	close_shop(&s);
}

TEST(those_called_are_served_in_order_however_late_they_ask)
{
	struct customer c[3];
	struct shop s;

	open_shop(&s, c, 3);
	for (int i = 0; i < 3; i++)
		ask(&c[i]);
	c[0].lost_interest = c[1].lost_interest = c[2].lost_interest = true;
	s.stock = 1;
	line_stocked(&s.line);
	while (!list_empty(&c[1].wait.on))
		(void)loop_turn(s.loop, 50);
	ask(&c[0]); /* its time is over and b was called */
	ask(&c[1]);
	eq_str(buf_str(&s.log), "a? b? c? a- b- a! b? ");
	c[1].lost_interest = c[2].lost_interest = false;
	arrives(&s, 2);
	eq_str(buf_str(&s.log), "a? b? c? a- b- a! b? b! c! ");
	close_shop(&s);
}

TEST(a_waiter_that_is_gone_after_its_call_does_not_keep_the_thing)
{
	struct customer c[2];
	struct shop s;

	open_shop(&s, c, 2);
	for (int i = 0; i < 2; i++)
		ask(&c[i]);
	c[0].lost_interest = true;
	s.stock = 1;
	line_stocked(&s.line);
	memset(&c[0], 0xff, sizeof(c[0])); /* as if its memory were another's by now */
	arrives(&s, 0);
	eq_str(buf_str(&s.log), "a? b? a- b! ");
	close_shop(&s);
}

/* The market: many customers who come, ask at once or later, take, give back and go away, and a
 * stock that grows and is lost at random. */
enum {
	N_CUSTOMERS = 40,
	N_STEPS = 4000,
};

struct market {
	struct shop shop;
	struct buyer {
		struct customer as;
		enum {
			AWAY,
			WAITS,
			CALLED,
		} state;
		bool slow;     /* does not answer at once when it is called */
		unsigned came; /* 0: it has no place */
	} buyers[N_CUSTOMERS];
	unsigned n_came, n_served;
};

static bool came_before(const struct buyer *a, const struct buyer *b)
{
	return a->as.wait.later != b->as.wait.later ? b->as.wait.later : a->came < b->came;
}

static void buyer_asks(struct market *m, struct buyer *b)
{
	if (!b->came)
		b->came = ++m->n_came;
	if (!line_ask(&m->shop.line, &b->as.wait)) {
		b->state = WAITS;
		return;
	}
	is_true(m->shop.stock);
	m->shop.stock--;
	m->n_served++;
	for (size_t i = 0; i < N_CUSTOMERS; i++)
		is_false(m->buyers[i].state == WAITS && &m->buyers[i] != b &&
			 came_before(&m->buyers[i], b));
	b->state = AWAY;
	b->came = 0;
}

static void on_buyer_called(struct runtime_wait *w)
{
	struct buyer *b = container_of(container_of(w, struct customer, wait), struct buyer, as);

	b->state = CALLED;
	if (!b->slow)
		buyer_asks(container_of(b->as.shop, struct market, shop), b);
}

static void market_step(struct market *m)
{
	struct buyer *b = &m->buyers[random_u64() % N_CUSTOMERS];

	switch (random_u64() % 8) {
	case 0:
	case 1:
		m->shop.stock++;
		line_stocked(&m->shop.line);
		break;
	case 2: /* a launcher crashed with what it had made */
		m->shop.stock -= MIN(m->shop.stock, (unsigned)(random_u64() % 3));
		break;
	case 3: /* it is not wanted any more, whether it was called or not */
		list_del(&b->as.wait.on);
		line_leave(&m->shop.line, &b->as.wait);
		b->state = AWAY;
		b->came = 0;
		break;
	case 4:
		(void)loop_turn(m->shop.loop, 0);
		break;
	default:
		if (b->state != WAITS)
			buyer_asks(m, b);
	}
}

/* Those who were called answer at last, or never. */
static void market_settles(struct market *m)
{
	for (size_t i = 0; i < N_CUSTOMERS; i++) {
		struct buyer *b = &m->buyers[i];

		if (b->state == CALLED && i % 2)
			buyer_asks(m, b);
		else if (b->state == CALLED)
			b->state = AWAY;
		b->slow = false;
	}
	while (timer_armed(m->shop.line.next))
		(void)loop_turn(m->shop.loop, 50);
	is_false(m->shop.stock && !list_empty(&m->shop.line.waiting));
}

TEST(nobody_waits_while_something_is_free_whatever_happens)
{
	struct market m = { 0 };

	open_shop(&m.shop, NULL, 0);
	for (size_t i = 0; i < N_CUSTOMERS; i++) {
		struct customer *c = &m.buyers[i].as;

		*c = (struct customer){ .shop = &m.shop };
		list_init(&c->wait.on);
		c->wait.ready = on_buyer_called;
		c->wait.later = i % 3 == 0;
	}
	for (int i = 0; i < N_STEPS; i++) {
		m.buyers[random_u64() % N_CUSTOMERS].slow = random_u64() % 4 == 0;
		market_step(&m);
		if (i % 200 == 0)
			market_settles(&m);
	}
	market_settles(&m);
	is_true(m.n_served > N_STEPS / 20);
	close_shop(&m.shop);
}
