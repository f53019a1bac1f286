/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct buf;
struct loop;
struct settings;

/*
 * The two ports beside the router's: /metrics on one, /healthz and /readyz on the other, or all
 * three on one if the addresses are the same.
 */
struct probes;
struct probes_spec {
	const char *metrics, *health; /* addresses; "": no such port */
	void (*write)(void *arg, struct buf *b);
	const char *(*trouble)(void *arg); /* why it is not ready; NULL: it is */
	void *arg;
};
must_use struct err *probes_start(struct loop *l, const struct probes_spec *spec,
				  struct probes **ret);
void probes_free(struct probes *p);

/* The address that a flag names: ":8080" is all addresses, as in Go. "" and "0": no port, *ret is
 * "". ERR_INVALID names the flag. */
must_use struct err *address_setting(const struct settings *s, const char *flag, char **ret);
