/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/protocol.h"

#include <netinet/in.h>
#include <stddef.h>

#include "base/macros.h"
#include "base/str.h"

static const struct protocol {
	uint8_t number;
	const char *name, *filter_name;
} protocols[] = {
	{ IPPROTO_TCP, "TCP", "tcp" },
	{ IPPROTO_UDP, "UDP", "udp" },
	{ IPPROTO_SCTP, "SCTP", "sctp" },
};

uint8_t protocol_number(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
		if (!name || str_eq(protocols[i].name, name))
			return protocols[i].number;
	return 0;
}

static const struct protocol *find(uint8_t number)
{
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
		if (protocols[i].number == number)
			return &protocols[i];
	return NULL;
}

const char *protocol_name(uint8_t number)
{
	const struct protocol *p = find(number);

	return p ? p->name : NULL;
}

const char *protocol_filter_name(uint8_t number)
{
	const struct protocol *p = find(number);

	return p ? p->filter_name : NULL;
}
