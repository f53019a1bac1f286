/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "guest/files/multipart_priv.h"
#include "test.h"

static void on_begin(void *arg, const char *name, const char *filename)
{
	buf_printf(arg, "[%s|%s|", name ? name : "-", filename ? filename : "-");
}

static void on_data(void *arg, const char *p, size_t len)
{
	buf_add(arg, p, len);
}

static void on_end(void *arg)
{
	buf_add_char(arg, ']');
}

static const struct multipart_events events = { on_begin, on_data, on_end };

/* The events of a body that is fed in pieces, as text. */
static struct err *read_form(const char *body, size_t piece, struct buf *out)
{
	autoptr(multipart) m = NULL;
	size_t len = strlen(body);
	struct err *e = multipart_new("multipart/form-data; boundary=XX", &events, out, &m);

	for (size_t at = 0; !e && at < len; at += piece)
		e = multipart_feed(m, body + at, MIN(piece, len - at));
	return e ? e : multipart_end(m);
}

#define FILE_PART(disposition, data) \
	"--XX\r\nContent-Disposition: form-data; " disposition "\r\n\r\n" data "\r\n"
#define LAST "--XX--\r\n"

TEST(forms_are_read_whatever_the_pieces)
{
	static const char *const rows[][2] = {
		{ FILE_PART("name=\"file\"; filename=\"a.txt\"", "hello") LAST,
		  "[file|a.txt|hello]" },
		{ FILE_PART("name=\"a\"", "1") FILE_PART("name=\"b\"", "2") LAST,
		  "[a|-|1][b|-|2]" },
		{ "preamble\r\n" FILE_PART("name=x", "") LAST "epilogue", "[x|-|]" },
		{ FILE_PART("name=x", "\r\n--X\r\n--XY\r\r\n-") LAST,
		  "[x|-|\r\n--X\r\n--XY\r\r\n-]" },
		{ "--XX\r\n\r\nbare\r\n--XX--", "[-|-|bare]" },
		{ "--XX  \t\r\n\r\nx\r\n--XX--", "[-|-|x]" },
		{ "--XX\r\nA: b\r\n\r\n--XX--", "[-|-|]" },
		{ "--XX--\r\n", "" },
		{ "--XX\r\nContent-Type: text/plain\r\nCONTENT-DISPOSITION: form-data; NAME=f\r\nX: y\r\n\r\nd\r\n" LAST,
		  "[f|-|d]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t piece = 1; piece < 80; piece += piece < 12 ? 1 : 13) {
			autobuf out = { 0 };

			works(read_form(rows[i][0], piece, &out));
			eq_str(buf_str(&out), rows[i][1]);
		}
}

TEST(filenames_of_every_client_are_understood)
{
	static const char *const rows[][2] = {
		{ FILE_PART("name=\"file\"; filename=\"a;b=c\"", "") LAST, "[file|a;b=c|]" },
		{ FILE_PART("filename=bare.txt;name=file", "") LAST, "[file|bare.txt|]" },
		{ FILE_PART("name=file; filename=\"\xc3\xa4\"", "") LAST, "[file|\xc3\xa4|]" },
		{ FILE_PART("name=file; filename=\"q%22q%0a%41\"", "") LAST, "[file|q\"q\n%41|]" },
		{ FILE_PART("name=file; filename=\"q\\\"q\\\\s\\x\"", "") LAST,
		  "[file|q\"q\\s\\x|]" },
		{ FILE_PART("name=file; filename=\"no\"; filename*=utf-8''%C3%A4%20b", "") LAST,
		  "[file|\xc3\xa4 b|]" },
		{ FILE_PART("name=file; filename*=UTF-8'en'x", "") LAST, "[file|x|]" },
		{ FILE_PART("name=file; filename=\"yes\"; filename*=latin1''%E4", "") LAST,
		  "[file|yes|]" },
		{ FILE_PART("name=file; filename*=utf-8''%00", "") LAST, "[file|-|]" },
		{ FILE_PART("name=\"file", "") LAST, "[-|-|]" },
		{ FILE_PART("name=one; name=two", "") LAST, "[one|-|]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf out = { 0 };

		works(read_form(rows[i][0], 1000, &out));
		eq_str(buf_str(&out), rows[i][1]);
	}
}

TEST(broken_forms_are_rejected)
{
	static const char *const rows[] = {
		"",
		"--XX",
		"nothing",
		"--XX\r\nContent-Disposition: form-data; name=x\r\n\r\ncut",
		"--XX\r\nno end of headers",
		"--XXtail\r\n\r\n",
		"--XX\r\n\r\nx\r\n--XXmore",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t piece = 1; piece < 100; piece += 33) {
			autobuf out = { 0 };

			fails(read_form(rows[i], piece, &out), ERR_MALFORMED);
		}
}

TEST(headers_and_parts_are_limited)
{
	autobuf body = { 0 }, out = { 0 };

	buf_add_str(&body, "--XX\r\nX: ");
	for (int i = 0; i < MULTIPART_HEADERS_MAX; i++)
		buf_add_char(&body, 'x');
	fails(read_form(buf_str(&body), 1000, &out), ERR_TOO_LARGE);
	buf_add_str(&body, "\r\n\r\ndata\r\n--XX--");
	fails(read_form(buf_str(&body), 100000, &out), ERR_TOO_LARGE);
	buf_clear(&body);
	for (int i = 0; i <= MULTIPART_PARTS_MAX; i++)
		buf_add_str(&body, "--XX\r\n\r\nx\r\n");
	fails(read_form(buf_str(&body), 1000, &out), ERR_TOO_LARGE);
}

TEST(content_type_must_name_a_boundary)
{
	static const char *const bad[] = {
		NULL,
		"",
		"text/plain; boundary=x",
		"multipart/form-data",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"",
		"multipart/form-data; boundary=\"a\tb\"",
		"multipart/form-data; charset=x",
	};
	static const char *const good[] = {
		"multipart/form-data; boundary=abc",
		"Multipart/Form-Data;boundary=\"a b\"",
		"multipart/form-data; charset=utf-8; BOUNDARY=----WebKitFormBoundary7MA4YWxkTrZu0gW",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct multipart *m = NULL;

		fails(multipart_new(bad[i], &events, NULL, &m), ERR_MALFORMED);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		autoptr(multipart) m = NULL;

		works(multipart_new(good[i], &events, NULL, &m));
	}
}
