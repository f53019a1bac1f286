/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* The forms in which objects are shown, in the order in which a wildcard prefers them. */
enum media {
	MEDIA_JSON,
	MEDIA_PROTOBUF,
	MEDIA_MAX_,
};
const char *media_type(enum media m);

/*
 * The media types of an Accept header, the preferred ones first, in the order in which a
 * kube-apiserver looks at them: by q, which may be 0, then those without a wildcard, then as they
 * are given. fn returns true to choose one.
 */
bool accept_each(const char *accept, bool (*fn)(void *arg, struct span type, struct span params),
		 void *arg);
/* Whether type, which may have wildcards, covers m. */
bool accept_covers(struct span type, enum media m);
/* params is what follows the first semicolon: "as=Table;v=v1;g=meta.k8s.io". NULL value: any. */
bool accept_param(struct span params, const char *name, const char *value);
/* Whether another kind of object is asked for than the one that is there: a Table, for example. */
bool accept_converts(struct span params);
/* Whether params ask for something that is not there: a stream other than a watch. */
bool accept_impossible(struct span params);
/* The form of something that is shown as it is, a Status for example. JSON where nothing suits:
 * what has happened must not be hidden behind a question of form. */
enum media accept_plain(const char *accept);
