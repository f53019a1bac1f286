/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "json/json.h"

struct custom;

/*
 * Schema tables: one table per type, and everything that walks it: decoding, defaulting,
 * validation, strategic merge, OpenAPI, printed CRDs. Built-in Kubernetes types are generated as
 * data by tools/gen-schema; ours are written by hand in the same form.
 */
enum type_kind {
	TYPE_STRING,
	TYPE_BOOL,
	TYPE_INT32,
	TYPE_INT64,
	TYPE_NUMBER,
	TYPE_INT_OR_STRING,
	TYPE_QUANTITY,
	TYPE_TIME, /* RFC 3339 */
	TYPE_MICRO_TIME,
	TYPE_BYTES,  /* base64 */
	TYPE_OBJECT, /* fields */
	TYPE_MAP,    /* of elem */
	TYPE_LIST,   /* of elem */
	TYPE_ANY,    /* kept as it is (managedFields, RawExtension) */
	TYPE_KIND_MAX_,
};

/* What a value is in protobuf, and may be in JSON, where that does not follow from its kind. */
enum type_form {
	FORM_PLAIN,
	FORM_DURATION, /* TYPE_STRING: "1.5s" is { 1: nanoseconds } */
	FORM_OR_BOOL,  /* TYPE_OBJECT, or true or false: { 1: is it allowed, 2: the object } */
	FORM_OR_LIST,  /* TYPE_OBJECT: { 1: the object, 2: a list of such }, of which JSON has the
			  first alone */
	FORM_OR_TEXTS, /* TYPE_ANY, an object of elem or a list of texts: { 1: object, 2: text } */
};

enum list_kind {
	LIST_ATOMIC,
	LIST_SET,
	LIST_MAP, /* keyed by merge_keys */
};

/* How Go declares a member, which decides what its JSON leaves out: decode.c does the same. */
enum {
	FIELD_REQUIRED = 1,
	FIELD_POINTER = 2,   /* absent and empty differ */
	FIELD_OMITEMPTY = 4, /* an empty value is not written, unless it is behind a pointer */
};

struct type {
	enum type_kind kind;
	const char *name; /* "io.k8s.api.core.v1.PodSpec"; NULL for plain and anonymous ones */
	const struct field *fields; /* TYPE_OBJECT: ends with a NULL name */
	const struct type *elem;    /* TYPE_MAP, TYPE_LIST, FORM_OR_TEXTS */
	enum list_kind list;        /* TYPE_LIST: how server-side apply sees it */
	const char *merge_keys[4];  /* LIST_MAP */
	const char *patch_key;      /* strategic merge: elements are merged by this member; NULL:
				       replaced whole; "": scalars, merged as a set */
	const char *const *values;  /* TYPE_STRING: allowed ones, NULL-terminated; NULL: any */
	const char *pattern;        /* for OpenAPI; checked by check */
	const char *(*check)(const struct json *v); /* NULL, or what is wrong with it */
	const int64_t *min, *max;                   /* numbers; lengths of strings and lists */
	const char *help;
	bool atomic; /* TYPE_OBJECT, TYPE_MAP: one owner as a whole (x-kubernetes-map-type) */
	/* Of a whole object: a custom resource, which is validated by its schema alone: list keys
	 * must be unique, and required members are required in status too. Kubernetes demands
	 * neither of its built-in kinds. */
	bool structural;
	bool open; /* TYPE_OBJECT: members that it does not name are allowed */
	enum type_form form;
	/* Of a whole object: what it contains is said by a CustomResourceDefinition, and fields are
	 * only those that every object has. NULL: by the fields. */
	const struct custom *custom;
	/* TYPE_OBJECT with a protobuf message: the fields that are in it, as indices in the order
	 * of their numbers; those of an inlined message are together. Ends with
	 * FIELDS_END; NULL: there is no such message. */
	const unsigned char *by_number;
};

/* No type has more fields than FIELDS_MAX. */
enum {
	FIELDS_MAX = 64,
	FIELDS_END = 255,
};

/* With all that a CustomResourceDefinition says, of a type that has one. */
const struct type *type_in_full(const struct type *t);

struct field {
	const char *name;
	const struct type *type;
	unsigned flags;
	const char *fallback; /* default as JSON text; NULL: none */
	const char *help;
	int pb; /* protobuf number, 0 when unknown */
	/* The rest is set for built-in kinds only. */
	int pb_in;         /* the number of the inlined message that pb is in; 0: it is in none */
	const char *embed; /* the Go struct it is inlined from, as error texts name it */
	const char *go;    /* its Go type, where that does not follow from type */
	const char *const *values; /* of an enumeration, for OpenAPI; NULL-terminated */
};

/* The types without fields. */
extern const struct type type_string, type_bool, type_int32, type_int64, type_number,
	type_int_or_string, type_quantity, type_time, type_micro_time, type_bytes, type_any,
	type_string_map, type_string_list, type_duration;

/* What is wrong with an object, by field. */
enum cause_reason {
	CAUSE_REQUIRED,    /* FieldValueRequired */
	CAUSE_INVALID,     /* FieldValueInvalid */
	CAUSE_UNSUPPORTED, /* FieldValueNotSupported */
	CAUSE_DUPLICATE,   /* FieldValueDuplicate */
	CAUSE_TYPE,        /* FieldValueTypeInvalid */
	CAUSE_FORBIDDEN,   /* FieldValueForbidden */
	CAUSE_TOO_LONG,    /* FieldValueTooLong */
	CAUSE_TOO_MANY,    /* FieldValueTooMany */
	CAUSE_NOT_FOUND,   /* FieldValueNotFound */
	CAUSE_TERMINATING, /* NamespaceTerminating */
	CAUSE_VERSION,     /* ResourceVersionTooLarge: it does not exist yet */
	CAUSE_MANAGER,     /* FieldManagerConflict: somebody else owns the field */
	CAUSE_UNKNOWN,     /* a member that is unknown or appears twice: reports of decode.h */
	CAUSE_REASON_MAX_,
};
struct cause {
	enum cause_reason reason;
	char *field;   /* spec.ports[2].port */
	char *message; /* as Kubernetes words it: Invalid value: 0: must be between 1 and 65535,
			  inclusive */
};
struct causes {
	struct cause *list;
	size_t n; /* at most 64 are kept */
};
/* An unknown member is reported once. c may be NULL: causes are dropped. */
void causes_add(struct causes *c, enum cause_reason reason, const char *field, const char *fmt, ...)
	printf_like(4, 5);
void causes_done(struct causes *c);
const char *cause_reason_name(enum cause_reason r); /* "FieldValueRequired" */
/* "spec.a: Required value" or "[spec.a: ..., spec.b: ...]", as a Status message ends. malloc'd. */
char *causes_text(const struct causes *c);
/* The usual ones, in Kubernetes' words. detail may be NULL in the first; a NULL v is null. */
void causes_required(struct causes *c, const char *field, const char *detail);
void causes_invalid(struct causes *c, const char *field, const struct json *v, const char *detail);
void causes_invalid_str(struct causes *c, const char *field, const char *v, const char *detail);
void causes_unsupported(struct causes *c, const char *field, const char *v,
			const char *const *values);
void causes_duplicate(struct causes *c, const char *field, const char *v);
void causes_forbidden(struct causes *c, const char *field, const char *detail);

/* For trees that decode.h made. was as in struct decode_request. */
void schema_default(struct json_doc *d, struct json *v, const struct type *t,
		    const struct json *was);
/* Types, required members, allowed values, ranges, duplicate keys. */
void schema_validate(const struct json *v, const struct type *t, const struct json *was,
		     struct causes *c);
/* The field of an object type, or NULL. */
const struct field *schema_field(const struct type *t, const char *name);
