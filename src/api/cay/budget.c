/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/budget.h"

#include <stdio.h>

#include "api/cay/read_priv.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/str.h"

#define NANO        1000000000LL
#define GIB_HOURS   ((int64_t)3600 << 30) /* in bytes times seconds */
#define CPU_SECONDS 1000000LL

static const struct {
	const char *name;
	int64_t unit; /* of the API, in ours */
} costs[COST_MAX_] = {
	[COST_CPU_US] = { "cpuSeconds", CPU_SECONDS },
	[COST_MEMORY_BYTE_S] = { "memoryGiBHours", GIB_HOURS },
	[COST_DISK_BYTE_S] = { "diskGiBHours", GIB_HOURS },
	[COST_NETWORK_BYTES] = { "networkBytes", 1 },
};

static const char *const consequences[] = { "Suspend", "Deny", "Warn", NULL };

const char *cost_name(enum cost c)
{
	return costs[c].name;
}

static int64_t amount(const struct json *v, int64_t unit, int64_t absent)
{
	struct quantity q;
	__int128 whole, rest;

	if (!quantity_read(v, &q))
		return absent;
	if (q.nano < 0)
		return 0; /* the rules of a Budget accept none */
	whole = q.nano / NANO;
	rest = (q.nano % NANO * unit + NANO / 2) / NANO;
	if (whole > (INT64_MAX - rest) / unit)
		return INT64_MAX;
	return (int64_t)(whole * unit + rest);
}

void costs_read(const struct json *tree, int64_t absent, struct costs *ret)
{
	for (enum cost c = 0; c < COST_MAX_; c++)
		ret->of[c] = amount(json_get(tree, costs[c].name), costs[c].unit, absent);
}

/* 1.5, without zeros at the end. */
static void amount_text(int64_t n, int64_t unit, char *ret, size_t size)
{
	int64_t whole = n / unit;
	__int128 nano = ((__int128)(n % unit) * NANO + unit / 2) / unit;
	int len;

	if (nano == NANO) {
		whole++;
		nano = 0;
	}
	len = snprintf(ret, size, "%lld.%09lld", (long long)whole, (long long)nano);
	while (ret[len - 1] == '0')
		ret[--len] = '\0';
	if (ret[len - 1] == '.')
		ret[--len] = '\0';
}

void cost_text(enum cost c, int64_t amount_, char ret[COST_TEXT_MAX])
{
	amount_text(amount_, costs[c].unit, ret, COST_TEXT_MAX);
}

/* To billionths of the unit, and back. */
void costs_round(struct costs *c)
{
	for (enum cost i = 0; i < COST_MAX_; i++) {
		int64_t unit = costs[i].unit, whole = c->of[i] / unit;
		__int128 nano = ((__int128)(c->of[i] % unit) * NANO + unit / 2) / unit;

		c->of[i] = (int64_t)(whole * unit + (nano * unit + NANO / 2) / NANO);
	}
}

void costs_add(struct costs *to, const struct costs *c)
{
	for (enum cost i = 0; i < COST_MAX_; i++)
		if (__builtin_add_overflow(to->of[i], c->of[i], &to->of[i]))
			to->of[i] = INT64_MAX;
}

bool costs_none(const struct costs *c)
{
	for (enum cost i = 0; i < COST_MAX_; i++)
		if (c->of[i])
			return false;
	return true;
}

struct json *costs_write(const struct costs *c, struct json_doc *d)
{
	struct json *ret = json_obj(d);
	char text[COST_TEXT_MAX];

	for (enum cost i = 0; i < COST_MAX_; i++) {
		if (c->of[i] < 0)
			continue;
		cost_text(i, c->of[i], text);
		json_set_str(d, ret, costs[i].name, text);
	}
	return ret;
}

static void decode(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *limits = json_get(spec, "limits");
	struct budget_view *v = view;

	costs_read(limits, -1, &v->limits);
	v->max_sandboxes = amount(json_get(limits, "maxSandboxes"), 1, -1);
	v->period = read_duration(spec, "period", 0);
	v->on_exceeded = read_word(spec, "onExceeded", consequences, EXCEEDED_SUSPEND);
	v->created = view_created(o);
	v->exceeded = json_get_bool(object_status(o), "exceeded", false);
	v->says = str_or(
		condition_view_of(json_get(object_status(o), "conditions"), "Exceeded").message,
		"");
	v->generation = object_generation(o);
	v->deleting = object_deleting(o);
}

usec budget_period_start(usec start, usec period, usec now)
{
	return period && now >= start ? start + (now - start) / period * period : start;
}

enum cost budget_exceeds(const struct budget_view *v, const struct costs *used)
{
	for (enum cost i = 0; i < COST_MAX_; i++)
		if (v->limits.of[i] >= 0 && used->of[i] >= v->limits.of[i])
			return i;
	return COST_MAX_;
}

const struct view_type budget_view_type = { sizeof(struct budget_view), decode, NULL };

const struct budget_view *budget_view(const struct object *o)
{
	return object_view(o, &budget_view_type);
}
