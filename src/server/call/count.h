/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mem.h"

struct buf;
struct call;

/* How many requests there were and how long they took, by the names and labels of kube-apiserver,
 * and by verb alone in finer steps. */
struct call_counts;
struct call_counts *call_counts_new(void);
void call_counts_free(struct call_counts *n);
AUTOPTR(call_counts)

/* A request has been answered, and its answer taken. */
void call_counts_add(struct call_counts *n, const struct call *c);
void call_counts_write(const struct call_counts *n, struct buf *b);
