/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct bytes;
struct client;
struct instance;
struct loop;
struct service_plan;

/*
 * The addresses of Services: follows Services, EndpointSlices and Pods, and has the packet filter
 * loaded when the rules are others than before. On the loop's thread.
 */
struct services;

struct services_spec {
	struct loop *loop;
	struct client *client;
	const struct instance *instance;
	bool host; /* what programs of the host send is led to Pods as well */
	/* The rules are to change. Not called before the loop has turned. plan is borrowed until
	 * the next call. */
	void (*load)(void *arg, struct bytes *rules, const struct service_plan *plan);
	void *arg;
};

struct services *services_new(const struct services_spec *spec);
void services_free(struct services *s);
