/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "outlet/outlet_priv.h"
#include "test.h"

TEST(a_sandbox_keeps_its_counts_while_it_has_the_address)
{
	autoptr(map) visitors = map_new(visitor_forget);
	struct visitor *v = visitor_at(visitors, "100.64.0.9", "uid-1");

	v->unrecorded = 3;
	is_true(visitor_may_ask(v));
	is_true(visitor_at(visitors, "100.64.0.9", "uid-1") == v);
	eq_int(v->unrecorded, 3);
	eq_int(v->spent, 1);
	is_true(visitor_at(visitors, "100.64.0.10", "uid-2") != v);
}

TEST(the_next_sandbox_at_an_address_starts_anew)
{
	autoptr(map) visitors = map_new(visitor_forget);
	struct visitor *was = visitor_at(visitors, "100.64.0.9", "uid-1"), *now;

	visitor_enter(was);
	visitor_enter(was);
	was->unrecorded = 3;
	while (visitor_may_ask(was))
		;
	now = visitor_at(visitors, "100.64.0.9", "uid-2");
	eq_int(now->unrecorded, 0);
	eq_int(now->active, 0);
	is_true(visitor_may_ask(now));
	visitor_leave(was);
	eq_int(was->unrecorded, 3); /* its own last record tells of these */
	visitor_leave(was);
	eq_int(now->active, 0);
	is_true(visitor_at(visitors, "100.64.0.9", "uid-2") == now);
}
