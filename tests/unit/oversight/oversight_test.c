/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "oversight/oversight_priv.h"
#include "test.h"

static const char *const known[] = { "limit", "follow", "since", NULL };

TEST(a_parameter_that_is_unknown_is_refused)
{
	works(query_check("", known));
	works(query_check("limit=1&follow=true&", known));
	works(query_check("since", known));
	fails(query_check("limit=1&Limit=1", known), ERR_MALFORMED);
	fails(query_check("limi=1", known), ERR_MALFORMED);
	fails(query_check("=1", known), ERR_MALFORMED);
}

TEST(values_are_read_strictly)
{
	bool yes = false, given = true;
	uint64_t n = 7;

	works(query_bool("follow=true", "follow", &yes));
	is_true(yes);
	fails(query_bool("follow=maybe", "follow", &yes), ERR_MALFORMED);
	works(query_uint("x=1", "limit", 10, &n, &given));
	eq_int(n, 7);
	is_true(!given);
	works(query_uint("limit=", "limit", 10, &n, &given));
	is_true(!given);
	works(query_uint("limit=10", "limit", 10, &n, &given));
	eq_int(n, 10);
	is_true(given);
	fails(query_uint("limit=11", "limit", 10, &n, &given), ERR_MALFORMED);
	fails(query_uint("limit=1x", "limit", 10, &n, &given), ERR_MALFORMED);
	fails(query_uint("limit=-1", "limit", 10, &n, &given), ERR_MALFORMED);
}

TEST(a_time_is_one_or_how_long_ago)
{
	const usec now = INT64_C(1772600767000000);
	usec at = 0;

	works(query_time("since=15m", "since", now, &at));
	eq_int(at, now - INT64_C(15) * 60 * 1000000);
	works(query_time("since=2026-03-04T05:06:07Z", "since", now, &at));
	eq_int(at, now);
	works(query_time("since=2026-03-04T06:06:07%2B01:00", "since", now, &at));
	eq_int(at, now);
	at = 5;
	works(query_time("", "since", now, &at));
	eq_int(at, 5);
	fails(query_time("since=soon", "since", now, &at), ERR_MALFORMED);
	fails(query_time("since=99999999h", "since", now, &at), ERR_MALFORMED);
}

TEST(the_kernel_is_believed_only_as_far_as_it_speaks)
{
	is_true(machine_pressure("some avg10=1.25 avg60=0.00 avg300=0.00 total=1\n") == 1.25);
	is_true(machine_pressure("full avg10=1.25\n") < 0);
	is_true(machine_pressure("") < 0);
	eq_int(machine_memory("MemTotal:  2 kB\nMemAvailable:  1 kB\n", "MemTotal"), 2048);
	eq_int(machine_memory("MemTotal:  2 kB\nMemAvailable:  1 kB\n", "MemAvailable"), 1024);
	eq_int(machine_memory("MemTotal:  2 kB\n", "Mem"), 0);
	eq_int(machine_memory("MemTotal:  2 kB\n", "SwapTotal"), 0);
	eq_int(machine_memory("MemTotal: none\n", "MemTotal"), 0);
}

TEST(this_machine_can_be_read)
{
	struct machine m;

	machine_read("/", &m);
	is_true(m.cpus > 0 && m.memory_total > 0 && m.memory_available <= m.memory_total);
	is_true(m.disk_total > 0 && m.disk_available <= m.disk_total);
}
