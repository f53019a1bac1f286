/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "server/write/write.h"

struct object;
struct op;

/* write.c: ERR_UNACCEPTABLE where the answer could not be shown, before anything is done. */
must_use struct err *write_acceptable(struct call *c);
/* The operation that a call asks for, without its options … */
struct op write_op(struct admit *a, struct call *c);
/* Options of the request, and who is to be recorded as the owner of what it writes. */
must_use struct err *write_options(struct call *c, struct op *op);
/* The operation with the options of a create, update or patch, if its answer can be shown. */
must_use struct err *write_begin(struct admit *a, struct call *c, struct op *ret);
/* Ends a write: errors at once, success after the commit. Takes e over. */
void write_finish(struct call *c, struct op *op, int status, struct err *e);

/* wait.c: POST …?wait=Ready. */
must_use struct err *wait_read(struct call *c, uint64_t *ret_s); /* 0: does not wait */
void wait_ready(struct waiters *ws, struct call *c, struct object *o, uint64_t wait_s);
