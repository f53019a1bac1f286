/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/service.h"
#include "base/err.h"

struct json;
struct json_doc;
struct op;
struct ranges;
struct supply;

/* A Service on its way into the store. */
enum {
	PORTS_MAX = 250, /* of one Service; a cluster has no limit, but searches these lists too */
	TAKEN_MAX = PORTS_MAX + SERVICE_FAMILIES_MAX + 1, /* by one write: the last checks health */
};

struct taken {
	struct supply *of;
	size_t number;
};

struct draft {
	struct op *op;
	struct json_doc *d;
	struct json *spec;
	const struct json *was; /* the spec before; NULL: it is created */
	struct ranges *ranges;
	const char *name;
	struct taken taken[TAKEN_MAX];
	size_t n_taken;
};

const char *service_text_at(const struct json *list, size_t i); /* "" for none */
bool service_ports_have(const struct json *ports, int64_t node_port);
bool service_has_own_ports(const struct json *spec); /* it gets node ports that nobody named */
void service_invalid(struct draft *s, const char *field, const char *member, const char *why);

/* service_supply.c: takes what is asked for or missing, until service_give_back(). */
must_use struct err *service_take_ips(struct draft *s);
must_use struct err *service_take_ports(struct draft *s);
void service_give_back(struct draft *s);
