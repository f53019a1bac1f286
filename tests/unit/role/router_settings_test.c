/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/settings.h"
#include "role/role.h"
#include "role/router_priv.h"
#include "test.h"

/* The numbers are those of docs/reference/dataplane.md §6.6. */

/* With one flag, or none. */
static struct err *read_config(const char *flag, struct router_config *ret)
{
	const char *argv[] = { "router", flag, NULL };
	autoptr(settings) s = NULL;
	struct err *e = settings_read(router_settings, flag ? 2 : 1, (char **)argv, &s);

	return e ? e : router_config_read(s, ret);
}

TEST(dataplane_163_bad_configurations_name_the_flag)
{
	static const char *const rows[] = {
		"--http-bind-address=",
		"--http-bind-address=localhost:80",
		"--http-bind-address=::1:80",
		"--mtls-mode=perhaps",
		"--mtls-mode=required",
		"--path-routing-prefix=s/",
		"--http-bind-address=8080",
		"--http-bind-address=:x",
		"--metrics-bind-address=nowhere",
		"--health-probe-bind-address=:70000",
		"--authz-mode=perhaps",
		"--authz-tokenreview-ttl=0s",
		"--authz-tokenreview-ttl=-1s",
		"--authz-tokenreview-cache-size=0",
		"--proxy-timeout=0s",
		"--proxy-timeout=soon",
		"--response-header-timeout=0",
		"--shutdown-timeout=0s",
		"--max-request-body-bytes=-1",
		"--upstream-max-retries=-1",
		"--upstream-retry-initial-delay=0s",
		"--upstream-retry-initial-delay=1s",
		"--upstream-retry-max-delay=1ms",
		"--cache-enabled=false",
		"--cache-sync-timeout=0s",
		"--cluster-domain=",
		"--enable-tracing",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct router_config c = { 0 };
		struct err *e = read_config(rows[i], &c);
		autofree char *flag = xstrndup(rows[i], strcspn(rows[i], "="));

		if (!e) {
			fail_msg("%s was accepted", rows[i]);
			continue;
		}
		is_true(strstr(err_text(e), flag) ||
			strstr(err_text(e), "--upstream-retry-max-delay"));
		fails(e, ERR_INVALID);
	}
}

TEST(what_is_not_given)
{
	struct router_config c = { 0 };

	works(read_config(NULL, &c));
	is_true(str_ends(c.listen, ":8080"));
	is_true(str_ends(c.metrics, ":9090"));
	is_true(str_ends(c.probes, ":8081"));
	eq_int(c.reviews.mode, REVIEWS_RBAC); /* not allow-all */
	is_false(c.reviews.token_optional);
	eq_int(c.reviews.ttl_ms, 30000);
	eq_int(c.reviews.max, 2048);
	eq_int(c.router.proxy_timeout_ms, 0);
	eq_int(c.router.head_timeout_ms, 0);
	is_true(c.router.has_retry);
	eq_int(c.router.retry.max, 3);
	eq_int(c.router.retry.first_ms, 200);
	eq_int(c.router.retry.last_ms, 800);
	is_false(c.router.allow_loopback);
	is_true(c.router.ns == NULL);
	eq_int(c.shutdown_ms, 30000);
	eq_int(c.sync_ms, 60000);
	router_config_done(&c);
}

TEST(dataplane_162_the_time_limit_from_the_environment)
{
	static const struct {
		const char *value;
		unsigned ms;
	} rows[] = { { "45", 45000 }, { "0.5", 500 }, { "junk", 0 }, { "-1", 0 },
		     { "0", 0 },      { "nan", 0 },   { "inf", 0 },  { "", 0 } };
	struct router_config c = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		is_true(!setenv("PROXY_TIMEOUT_SECONDS", rows[i].value, 1));
		works(read_config(NULL, &c));
		eq_int(c.router.proxy_timeout_ms, rows[i].ms);
		router_config_done(&c);
	}
	is_true(!setenv("PROXY_TIMEOUT_SECONDS", "45", 1));
	works(read_config("--proxy-timeout=7s", &c));
	eq_int(c.router.proxy_timeout_ms, 7000);
	router_config_done(&c);
	is_true(!unsetenv("PROXY_TIMEOUT_SECONDS"));
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	is_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)close(fd);
}

TEST(dataplane_165_a_file_of_settings)
{
	char path[] = "/tmp/cay-router-XXXXXX";
	struct router_config c = { 0 };
	int fd = mkstemp(path);

	is_true(fd >= 0);
	(void)close(fd);
	is_true(!setenv("SANDBOX_ROUTER_CONFIG", path, 1));
	write_file(path, "authz-mode: tokenreview\nupstream-max-retries: 7\n");
	works(read_config(NULL, &c));
	eq_int(c.reviews.mode, REVIEWS_TOKEN);
	eq_int(c.router.retry.max, 7);
	router_config_done(&c);
	works(read_config("--authz-mode=allow-all", &c));
	eq_int(c.reviews.mode, REVIEWS_ALLOW);
	router_config_done(&c);
	write_file(path, "no-such-key: 1\n");
	fails(read_config(NULL, &c), ERR_INVALID);
	write_file(path, "a: [\n");
	fails(read_config(NULL, &c), ERR_MALFORMED);
	(void)unlink(path);
	fails(read_config(NULL, &c), ERR_NOT_FOUND);
	is_true(!unsetenv("SANDBOX_ROUTER_CONFIG"));
}

/* With all of these. */
static struct err *read_flags(const char *const *flags, struct router_config *ret)
{
	const char *argv[8] = { "router" };
	autoptr(settings) s = NULL;
	struct err *e;
	int n = 1;

	for (; *flags; flags++)
		argv[n++] = *flags;
	e = settings_read(router_settings, n, (char **)argv, &s);
	return e ? e : router_config_read(s, ret);
}

TEST(dataplane_163_what_belongs_together)
{
	static const struct {
		const char *flags[6], *named;
	} rows[] = {
		{ { "--https-bind-address=:0" }, "--tls-cert-file" },
		{ { "--https-bind-address=:0", "--tls-cert-file=c" }, "--tls-key-file" },
		{ { "--https-bind-address=:0", "--tls-cert-file=c", "--tls-key-file=k",
		    "--mtls-mode=optional" },
		  "--tls-client-ca-file" },
		{ { "--mtls-mode=optional", "--tls-client-ca-file=x" }, "--mtls-mode" },
		{ { "--authz-mode=scoped-token" }, "--authz-scoped-token-secret-file" },
		{ { "--authz-scoped-token-secret-file=/dev/null" },
		  "--authz-scoped-token-secret-file" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct router_config c = { 0 };
		struct err *e = read_flags(rows[i].flags, &c);

		is_true(e && strstr(err_text(e), rows[i].named));
		fails(e, ERR_INVALID);
	}
}
