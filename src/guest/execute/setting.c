/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/execute/setting.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "guest/runtime/path.h"
#include "guest/spawn/spawn.h"

static const char *type_name(json_type type)
{
	return type == JSON_OBJECT ? "dict_type" : type == JSON_ARRAY ? "list_type" : "string_type";
}

static const char *type_text(json_type type)
{
	return type == JSON_OBJECT  ? "Input should be a valid dictionary"
	       : type == JSON_ARRAY ? "Input should be a valid list"
				    : "Input should be a valid string";
}

bool member_is(const json_t *body, const char *name, json_type type, struct complaint *ret)
{
	const json_t *v = json_object_get(body, name);

	if (!v || json_is_null(v) || json_typeof(v) == type)
		return true;
	*ret = (struct complaint){ type_name(type), type_text(type), name, NULL, v };
	return false;
}

bool member_bool(const json_t *body, const char *name, bool *ret, struct complaint *bad)
{
	const json_t *v = json_object_get(body, name);

	if (!v || json_is_null(v) || json_is_boolean(v)) {
		*ret = json_is_true(v);
		return true;
	}
	*bad = (struct complaint){ "bool_type", "Input should be a valid boolean", name, NULL, v };
	return false;
}

bool member_positive(const json_t *body, const char *name, double *ret, struct complaint *bad)
{
	const json_t *v = json_object_get(body, name);
	double n;

	if (!v || json_is_null(v))
		return true;
	if (!json_is_number(v)) {
		*bad = (struct complaint){ "float_type", "Input should be a valid number", name,
					   NULL, v };
		return false;
	}
	n = json_number_value(v);
	if (!isfinite(n) || n <= 0) {
		*bad = (struct complaint){ "greater_than", "Input should be greater than 0", name,
					   NULL, v };
		return false;
	}
	*ret = n;
	return true;
}

bool setting_check(const json_t *body, struct complaint *ret)
{
	const char *name;
	json_t *env = json_object_get(body, "env"), *v;

	if (!member_is(body, "env", JSON_OBJECT, ret) || !member_is(body, "cwd", JSON_STRING, ret))
		return false;
	json_object_foreach(env, name, v)
	{
		*ret = (struct complaint){ "string_type", type_text(JSON_STRING), "env", name, v };
		if (!json_is_string(v))
			return false;
		ret->type = "value_error";
		ret->msg = "Value error, a name is not empty and has no '='";
		if (!*name || strchr(name, '='))
			return false;
	}
	return true;
}

/* True if more has a value for the variable at the beginning of line. */
static bool overridden(const char *line, const json_t *more)
{
	autofree char *name = xstrndup(line, strcspn(line, "="));

	return json_object_get(more, name) != NULL;
}

static void env_merge(const char *const *env, json_t *more, struct setting *ret)
{
	size_t n = 0, kept = 0, added = 0;
	const char *name;
	json_t *v;

	while (env && env[n])
		n++;
	ret->env = xnew_n(const char *, n + json_object_size(more) + 1);
	ret->owned = xnew_n(char *, json_object_size(more) + 1);
	for (size_t i = 0; i < n; i++)
		if (!overridden(env[i], more))
			ret->env[kept++] = env[i];
	json_object_foreach(more, name, v)
	{
		ret->owned[added] = xasprintf("%s=%s", name, json_string_value(v));
		ret->env[kept++] = ret->owned[added++];
	}
}

static struct err *cwd_open(const char *base, struct setting *s)
{
	struct base b;
	struct err *e = base_open(base, &b);

	if (e)
		return e;
	e = path_open(&b, s->cwd, O_PATH | O_DIRECTORY, &s->cwd_fd);
	base_done(&b);
	return e;
}

struct err *setting_open(const char *base, const char *const *env, const json_t *body,
			 struct setting *ret)
{
	const char *cwd = json_string_value(json_object_get(body, "cwd"));
	json_t *more = json_object_get(body, "env");

	*ret = (struct setting){ .cwd_fd = -1, .input = -1 };
	if (json_object_size(more))
		env_merge(env, more, ret);
	if (!cwd)
		return NULL;
	ret->cwd = xstrdup(cwd);
	return cwd_open(base, ret);
}

struct err *setting_give_input(struct setting *s, const char *text, size_t len)
{
	struct err *e;

	s->input = memfd_create("input", MFD_CLOEXEC);
	if (s->input < 0)
		return err_sys(errno, "keep the input");
	e = fd_write_all(s->input, text, len);
	if (!e && lseek(s->input, 0, SEEK_SET) < 0)
		e = err_sys(errno, "keep the input");
	return e;
}

void setting_apply(const struct setting *s, struct spawn *spec)
{
	if (s->env)
		spec->env = s->env;
	if (s->cwd) {
		spec->cwd = s->cwd;
		spec->cwd_fd = s->cwd_fd;
	}
	if (s->input >= 0)
		spec->fds[0] = s->input;
}

void setting_done(struct setting *s)
{
	for (char **o = s->owned; o && *o; o++)
		free(*o);
	free(s->owned);
	free(s->env);
	free(s->cwd);
	if (s->cwd_fd > 2)
		(void)close(s->cwd_fd);
	if (s->input > 2)
		(void)close(s->input);
	*s = (struct setting){ .cwd_fd = -1, .input = -1 };
}
