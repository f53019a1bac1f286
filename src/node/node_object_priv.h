/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct host_budget;
struct client;
struct condition;
struct loop;

/* The Node object: what this machine has, and that it is ready. Rewritten every few minutes. */
struct node_object;

struct node_object *node_object_new(struct loop *l, struct client *c, const char *name,
				    const struct host_budget *b);
/* Sets a condition beside Ready, whose status is "True" or "False"; written at once, and again with
 * every heartbeat. The texts are copied. */
void node_object_condition(struct node_object *n, const struct condition *c);
void node_object_shut_down(struct node_object *n); /* from now on it is not ready */
void node_object_free(struct node_object *n);
