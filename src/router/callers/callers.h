/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "router/router.h"

struct loop;

/*
 * Who has connected. The kernel is asked when a connection is accepted; whether a user is in the
 * group is looked up by a job when it first matters.
 */
struct callers;
/* group NULL: nobody is. learned() is called whenever one more user is known. */
must_use struct err *callers_new(struct loop *l, const gid_t *group, void (*learned)(void *arg),
				 void *arg, struct callers **ret);
void callers_free(struct callers *c);
/* ERR_UNSUPPORTED: this kernel cannot tell whose sockets are whose. */
must_use struct err *callers_check(struct callers *c, int listen_fd);
void callers_accepted(struct callers *c, int fd);
/* One that was handed to us: whoever it is has this ticket. */
void callers_adopted(struct callers *c, int fd, uint64_t ticket);
/* False: it is being looked up, and learned() will be called. */
bool callers_find(struct callers *c, int fd, struct router_caller *ret);
/* The owner of the other end of a connection within this machine. False: there is none. */
bool caller_uid(int netlink, int fd, uid_t *ret);
