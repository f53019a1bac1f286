/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct client;
struct loop;

/* The Node object: what this machine has, and that it is ready. Rewritten every few minutes. */
struct node_object;

struct node_object *node_object_new(struct loop *l, struct client *c, const char *name);
void node_object_free(struct node_object *n);
