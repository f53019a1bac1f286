/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "crypto/crypto.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * Certificates with P-256 keys, made so that strict verifiers accept them: key identifiers on both
 * sides, critical usages, names in subjectAltName.
 */
enum {
	SKEW_S = 300, /* how far behind a peer's clock may be */
	SERIAL_BITS = 127,
};

void tls_pair_done(struct tls_pair *p)
{
	free(p->cert_pem);
	if (p->key_pem)
		OPENSSL_cleanse(p->key_pem, strlen(p->key_pem));
	free(p->key_pem);
	*p = (struct tls_pair){ 0 };
}

static char *cert_text(X509 *x)
{
	auto_ossl(BIO) b = BIO_new(BIO_s_mem());

	if (!b || PEM_write_bio_X509(b, x) != 1)
		abort(); /* out of memory */
	return ossl_steal(b);
}

static bool set_serial(X509 *x)
{
	BIGNUM *n = BN_new();
	bool ok = n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
		  BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));

	BN_free(n);
	return ok;
}

static bool set_times(X509 *x, usec valid_for)
{
	return X509_gmtime_adj(X509_getm_notBefore(x), -SKEW_S) &&
	       X509_gmtime_adj(X509_getm_notAfter(x), (long)(valid_for / 1000000));
}

static bool add_name(X509_NAME *name, const char *field, const char *value)
{
	return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, (const unsigned char *)value,
					  -1, -1, 0) == 1;
}

static bool set_subject(X509 *x, const char *common_name, const char *const *organizations)
{
	X509_NAME *name = X509_get_subject_name(x);

	for (size_t i = 0; organizations && organizations[i]; i++)
		if (!add_name(name, "O", organizations[i]))
			return false;
	return add_name(name, "CN", common_name);
}

/* value must be ours alone: the library parses it as a small language. */
static bool add_ext(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(x, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

static GENERAL_NAME *general_name(const char *text)
{
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(text);
	ASN1_IA5STRING *dns = ip ? NULL : ASN1_IA5STRING_new();

	if (!g || (!ip && (!dns || ASN1_STRING_set(dns, text, -1) != 1)))
		abort(); /* out of memory */
	GENERAL_NAME_set0_value(g, ip ? GEN_IPADD : GEN_DNS, ip ? (void *)ip : (void *)dns);
	return g;
}

static bool add_sans(X509 *x, const char *const *sans)
{
	GENERAL_NAMES *names;
	bool ok;

	if (!sans || !sans[0])
		return true;
	names = sk_GENERAL_NAME_new_null();
	for (size_t i = 0; sans[i]; i++)
		if (!sk_GENERAL_NAME_push(names, general_name(sans[i])))
			abort(); /* out of memory */
	ok = X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) == 1;
	GENERAL_NAMES_free(names);
	return ok;
}

static struct err *sign_and_print(X509 *x, EVP_PKEY *signer, EVP_PKEY *key, struct tls_pair *ret)
{
	if (X509_sign(x, signer, EVP_sha256()) == 0)
		return ossl_err(ERR_INTERNAL, "sign certificate");
	ret->cert_pem = cert_text(x);
	ret->key_pem = ossl_key_text(key);
	return NULL;
}

static X509 *cert_new(EVP_PKEY *key, usec valid_for)
{
	X509 *x = X509_new();

	if (!x)
		abort(); /* out of memory */
	if (X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) && set_times(x, valid_for) &&
	    X509_set_pubkey(x, key) == 1)
		return x;
	X509_free(x);
	return NULL;
}

struct err *tls_make_ca(const char *common_name, usec valid_for, struct tls_pair *ret)
{
	auto_ossl(EVP_PKEY) key = EVP_EC_gen("P-256");
	auto_ossl(X509) x = key ? cert_new(key, valid_for) : NULL;

	if (!x || !set_subject(x, common_name, NULL) ||
	    X509_set_issuer_name(x, X509_get_subject_name(x)) != 1 ||
	    !add_ext(x, x, NID_basic_constraints, "critical,CA:TRUE") ||
	    !add_ext(x, x, NID_key_usage, "critical,digitalSignature,keyCertSign,cRLSign") ||
	    !add_ext(x, x, NID_subject_key_identifier, "hash"))
		return ossl_err(ERR_INVALID, "create CA certificate");
	return sign_and_print(x, key, key, ret);
}

static bool add_leaf_exts(X509 *x, X509 *issuer, const struct tls_cert_spec *spec)
{
	const char *usage = "clientAuth";

	if (spec->server)
		usage = spec->client ? "serverAuth,clientAuth" : "serverAuth";
	return add_ext(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_ext(x, issuer, NID_key_usage, "critical,digitalSignature") &&
	       ((!spec->server && !spec->client) || add_ext(x, issuer, NID_ext_key_usage, usage)) &&
	       add_ext(x, issuer, NID_subject_key_identifier, "hash") &&
	       add_ext(x, issuer, NID_authority_key_identifier, "keyid:always") &&
	       add_sans(x, spec->sans);
}

struct err *tls_make_cert_for(const struct tls_pair *ca, const struct tls_cert_spec *spec,
			      EVP_PKEY *key, char **ret_pem)
{
	auto_ossl(X509) x = cert_new(key, spec->valid_for);
	auto_ossl(X509) issuer = NULL;
	auto_ossl(EVP_PKEY) signer = NULL;
	struct err *e;

	e = tls_read_cert(ca->cert_pem, &issuer);
	if (!e)
		e = ossl_read_key(ca->key_pem, &signer);
	if (e)
		return err_wrap(e, "read CA");
	if (!x || !set_subject(x, spec->common_name, spec->organizations) ||
	    X509_set_issuer_name(x, X509_get_subject_name(issuer)) != 1 ||
	    !add_leaf_exts(x, issuer, spec))
		return ossl_err(ERR_INVALID, "create certificate");
	if (X509_sign(x, signer, EVP_sha256()) == 0)
		return ossl_err(ERR_INTERNAL, "sign certificate");
	*ret_pem = cert_text(x);
	return NULL;
}

struct err *tls_make_cert(const struct tls_pair *ca, const struct tls_cert_spec *spec,
			  struct tls_pair *ret)
{
	auto_ossl(EVP_PKEY) key = EVP_EC_gen("P-256");
	struct err *e;

	if (!key)
		return ossl_err(ERR_INTERNAL, "create a key");
	e = tls_make_cert_for(ca, spec, key, &ret->cert_pem);
	if (e)
		return e;
	ret->key_pem = ossl_key_text(key);
	return NULL;
}

usec tls_time(const ASN1_TIME *t)
{
	struct tm tm;

	return ASN1_TIME_to_tm(t, &tm) == 1 ? (usec)timegm(&tm) * 1000000 : 0;
}

usec tls_not_after(const X509 *x)
{
	return tls_time(X509_get0_notAfter(x));
}

struct err *tls_cert_key_id(const char *cert_pem, unsigned char ret[32])
{
	auto_ossl(X509) x = NULL;
	unsigned char *der = NULL;
	struct err *e = tls_read_cert(cert_pem, &x);
	int len;

	if (e)
		return e;
	len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &der);
	if (len <= 0)
		return ossl_err(ERR_INVALID, "read the public key of the certificate");
	sha256(der, (size_t)len, ret);
	OPENSSL_free(der);
	return NULL;
}

struct err *tls_cert_expiry(const char *cert_pem, usec *ret)
{
	auto_ossl(X509) x = NULL;
	struct err *e;
	usec at;

	e = tls_read_cert(cert_pem, &x);
	if (e)
		return e;
	at = tls_not_after(x);
	if (!at)
		return ossl_err(ERR_INVALID, "read the expiry time of the certificate");
	*ret = at;
	return NULL;
}
