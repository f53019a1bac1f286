/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/mem.h"
#include "crypto/openssl.h"

struct err *ossl_err(enum err_code code, const char *doing)
{
	unsigned long n = ERR_peek_last_error();
	const char *reason = n ? ERR_reason_error_string(n) : NULL;
	struct err *e = err_new(code, "%s: %s", doing, reason ? reason : "OpenSSL gave no reason");

	ERR_clear_error();
	return e;
}

BIO *ossl_text(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);

	if (!b)
		abort(); /* out of memory */
	return b;
}

char *ossl_steal(BIO *b)
{
	char *p;
	long len = BIO_get_mem_data(b, &p);

	return xstrndup(p, (size_t)len);
}

struct err *ossl_read_key(const char *pem, EVP_PKEY **ret)
{
	auto_ossl(BIO) b = ossl_text(pem);
	EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);

	if (!k) {
		auto_ossl(BIO) again = ossl_text(pem);

		k = PEM_read_bio_PUBKEY(again, NULL, NULL, NULL);
	}
	if (!k)
		return ossl_err(ERR_INVALID, "read key");
	ERR_clear_error();
	*ret = k;
	return NULL;
}

char *ossl_key_text(EVP_PKEY *key)
{
	auto_ossl(BIO) b = BIO_new(BIO_s_secmem());

	if (!b || PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) != 1)
		abort(); /* out of memory */
	return ossl_steal(b);
}
