/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "server/policy/security.h"

struct buf;
struct json;

struct subject {
	const struct json *meta, *spec;
	int version;
};

enum {
	V_SECCOMP = 19,     /* seccomp is a field, not an annotation */
	V_WINDOWS = 25,     /* Pods of Windows need not have what only Linux has */
	V_ENGINE_TYPE = 31, /* a fourth SELinux type */
	V_USER_SPACES = 35, /* Pods with user namespaces may be root, and see /proc */
};

/* security_words.c: a list of borrowed texts. */
struct words {
	const char **list;
	size_t n, room;
};
#define autowords __attribute__((cleanup(words_done))) struct words
void words_done(struct words *w);
void words_add(struct words *w, const char *text);
void words_sort(struct words *w); /* each is in it once afterwards */
void add_words(struct buf *b, const struct words *w, bool quoted);
/* container "a" / containers "a", "b" */
void add_named(struct buf *b, const char *what, const struct words *w);
/* pod and containers "a", "b" */
void add_setters(struct buf *b, bool pod, const struct words *containers);

/* The next container of any sort after *at, which begins with zeros; NULL: there is none. */
struct place {
	size_t list, i;
};
const struct json *next_container(const struct subject *s, struct place *at);
#define each_container(c, s) \
	for (struct place at_ = { 0 }; ((c) = next_container((s), &at_)) != NULL;)
/* A member of the securityContext of a container, or of the spec of a Pod. */
const struct json *context(const struct json *of, const char *member);
const char *name_of(const struct json *container);
bool is_windows(const struct subject *s);
bool has_user_space(const struct subject *s); /* its root is nobody outside */

/* security_baseline.c */
bool app_armor(const struct subject *s, struct buf *out);
bool capabilities_baseline(const struct subject *s, struct buf *out);
bool host_namespaces(const struct subject *s, struct buf *out);
bool host_paths(const struct subject *s, struct buf *out);
bool host_ports(const struct subject *s, struct buf *out);
bool probe_hosts(const struct subject *s, struct buf *out);
bool privileged(const struct subject *s, struct buf *out);
bool proc_mount(const struct subject *s, struct buf *out);
bool proc_mount_restricted(const struct subject *s, struct buf *out);
bool selinux(const struct subject *s, struct buf *out);
bool seccomp_baseline(const struct subject *s, struct buf *out);
bool sysctls(const struct subject *s, struct buf *out);
bool host_process(const struct subject *s, struct buf *out);
/* need: whoever says nothing is at fault too. */
bool seccomp(const struct subject *s, struct buf *out, bool need);

/* security_restricted.c */
bool escalation(const struct subject *s, struct buf *out);
bool capabilities_restricted(const struct subject *s, struct buf *out);
bool volumes(const struct subject *s, struct buf *out);
bool non_root(const struct subject *s, struct buf *out);
bool user_zero(const struct subject *s, struct buf *out);
bool seccomp_restricted(const struct subject *s, struct buf *out);
