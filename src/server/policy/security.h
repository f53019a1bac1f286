/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct json;

/*
 * Pod Security: what Pods may do, by the level that the labels of a namespace name (privileged,
 * baseline, restricted), as of a version of Kubernetes.
 */
enum security_level {
	SECURITY_PRIVILEGED,
	SECURITY_BASELINE,
	SECURITY_RESTRICTED,
};

/* Of labels, and of annotations in the audit log. */
#define SECURITY_PREFIX "pod-security.kubernetes.io/"

enum {
	SECURITY_LATEST = 1 << 30, /* a version; others are the number after "v1." */
	SECURITY_NAME_MAX = 40,
};

struct security {
	enum security_level level;
	int version;
};

struct security_policy {
	struct security enforce, warn, audit;
};

/* Labels that say nothing sensible mean: enforce the most, warn of nothing. */
struct security_policy security_policy_of(const struct json *labels);
/* Calls bad for each label that says nothing sensible. */
void security_check_labels(const struct json *labels,
			   void (*bad)(void *arg, const char *label, const char *value,
				       const char *why),
			   void *arg);
/* "restricted:latest" */
void security_name(const struct security *s, char ret[SECURITY_NAME_MAX]);

/*
 * NULL, or what the level forbids of a Pod, or of a template of Pods, malloc'd: with names, as a
 * client is told, or without.
 */
char *security_violations(const struct security *s, const struct json *pod, bool with_names);
/* What of a Pod can newly violate a level has changed. */
bool security_concerns(const struct json *pod, const struct json *old);
