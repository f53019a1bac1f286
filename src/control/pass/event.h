/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

struct context;
struct json_doc;
struct object;

/*
 * Events (events.k8s.io/v1). Each is sent once, without waiting for the result or retrying.
 */
struct event_spec {
	const struct object *about;
	const char *who;  /* reporting controller */
	const char *type; /* "Normal", "Warning" */
	const char *reason, *action;
	const char *note; /* cut where it is too long for the API */
};
struct json_doc *event_build(const struct event_spec *s, usec now);
void event_send(struct context *c, struct json_doc *event); /* takes it over; NULL is fine */
