/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "loop/queue.h"

struct context;
struct json_doc;
struct object;
struct pass;

/*
 * Events (events.k8s.io/v1). Nobody waits for one, so they are not sent in the turn that they tell
 * of, but a moment later, in their order and a few at a time. Each is sent once and not retried.
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

struct event_queue;
struct event_queue *event_queue_new(struct context *c);
/* Sends those that wait, without waiting for the end of it: in one process none is lost. */
void event_queue_free(struct event_queue *q);
/* Sends those that wait; done() is called once all have been answered, perhaps before this returns.
 */
void event_queue_flush(struct event_queue *q, void (*done)(void *arg), void *arg);
struct again event_reconcile(struct pass *p); /* of the key CONTROL_EVENTS */
