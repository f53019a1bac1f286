/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "rig.h"

static struct err *read_text(const char *text, const char *dir, struct kubeconfig *ret)
{
	autoptr(json_doc) d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return kubeconfig_read(json_root(d), dir, ret);
}

#define CONFIG(cluster, user)                                                             \
	"{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{"          \
	"\"cluster\":\"k\",\"user\":\"u\",\"namespace\":\"work\"}}],"                     \
	"\"clusters\":[{\"name\":\"other\",\"cluster\":{}},{\"name\":\"k\",\"cluster\":{" \
	"\"server\":\"https://h:1/\"" cluster "}}],"                                      \
	"\"users\":[{\"name\":\"u\",\"user\":{" user "}}]}"

TEST(kubeconfig_data_is_decoded)
{
	struct kubeconfig k = { 0 };

	works(read_text(CONFIG(",\"certificate-authority-data\":\"Y2E=\"",
			       "\"client-certificate-data\":\"Y2VydA==\","
			       "\"client-key-data\":\"a2V5\",\"token\":\"t\""),
			NULL, &k));
	eq_str(k.server, "https://h:1");
	eq_str(k.ca_pem, "ca");
	eq_str(k.cert_pem, "cert");
	eq_str(k.key_pem, "key");
	eq_str(k.token, "t");
	eq_str(k.namespace_, "work");
	is_false(k.insecure);
	kubeconfig_done(&k);
}

TEST(kubeconfig_files_are_found_beside_it)
{
	char dir[] = "/tmp/cay-test-XXXXXX";
	autofree char *ca = NULL;
	struct kubeconfig k = { 0 };

	assert_non_null(mkdtemp(dir));
	ca = xasprintf("%s/ca.pem", dir);
	works(file_write_atomic(AT_FDCWD, ca, "CA", 2, 0600));
	works(read_text(
		CONFIG(",\"certificate-authority\":\"ca.pem\"", "\"tokenFile\":\"/run/token\""),
		dir, &k));
	eq_str(k.ca_pem, "CA");
	eq_str(k.token_file, "/run/token");
	kubeconfig_done(&k);
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(kubeconfig_that_asks_for_more_is_refused)
{
	static const struct {
		const char *text;
		enum err_code code;
	} rows[] = {
		{ "{}", ERR_INVALID },
		{ "{\"current-context\":\"x\"}", ERR_INVALID },
		{ CONFIG(",\"proxy-url\":\"http://p\"", ""), ERR_UNSUPPORTED },
		{ CONFIG(",\"tls-server-name\":\"x\"", ""), ERR_UNSUPPORTED },
		{ CONFIG("", "\"exec\":{}"), ERR_UNSUPPORTED },
		{ CONFIG("", "\"client-key-data\":\"a2V5\""), ERR_INVALID },
		{ CONFIG("", "\"client-certificate-data\":\"a2V5\""), ERR_INVALID },
		{ CONFIG(",\"certificate-authority\":\"/nowhere/ca\"", ""), ERR_NOT_FOUND },
		{ CONFIG(",\"certificate-authority-data\":\"*\"", ""), ERR_MALFORMED },
	};
	struct kubeconfig k;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fails(read_text(rows[i].text, NULL, &k), rows[i].code);
}

TEST(in_cluster_files_are_read)
{
	char dir[] = "/tmp/cay-test-XXXXXX";
	autofree char *ca = NULL, *token = NULL;
	struct kubeconfig k = { 0 };

	assert_non_null(mkdtemp(dir));
	ca = xasprintf("%s/ca.crt", dir);
	token = xasprintf("%s/token", dir);
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
	fails(kubeconfig_read(NULL, dir, &k), ERR_NOT_FOUND);
	(void)setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	(void)setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	fails(kubeconfig_read(NULL, dir, &k), ERR_NOT_FOUND);
	works(file_write_atomic(AT_FDCWD, ca, "CA", 2, 0600));
	works(file_write_atomic(AT_FDCWD, token, "T", 1, 0600));
	works(kubeconfig_read(NULL, dir, &k));
	eq_str(k.server, "https://[fd00::1]:443");
	eq_str(k.token_file, token);
	eq_str(k.ca_pem, "CA");
	kubeconfig_done(&k);
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
	works(file_remove_tree(AT_FDCWD, dir));
}
