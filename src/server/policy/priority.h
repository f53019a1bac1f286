/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct json;
struct json_doc;
struct objects;

/* PriorityClasses, and the priorities of Pods. */

/* Gives a new Pod the priority of its class. NULL, or why that cannot be, malloc'd. */
char *priority_settle(const struct objects *os, struct json_doc *pod);
/* NULL, or why the class cannot be stored: another one is the default; malloc'd. */
char *priority_refuse(const struct objects *os, const struct json *class, const struct json *old);
