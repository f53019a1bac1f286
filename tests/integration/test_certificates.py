# SPDX-License-Identifier: Apache-2.0
"""Client certificates that this server did not issue."""

import http.client
import ssl
import subprocess


def get(cay, path, *pair):
    """The status of one request, with a certificate and key or with none."""
    context = ssl.create_default_context(cadata=cay.credentials()[0].decode())
    if pair:
        context.load_cert_chain(*pair)
    connection = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=60, context=context)
    connection.request("GET", path)
    return connection.getresponse().status


def test_a_certificate_of_another_ca_is_worse_than_none(cay, tmp_path):
    """It claims to be the administrator; whoever sends it is told so, even where nobody needs a credential."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-subj", "/O=system:masters/CN=admin", "-keyout", key, "-out", cert], check=True, capture_output=True)
    assert get(cay, "/healthz") == 200
    assert get(cay, "/healthz", cert, key) == 401
    assert get(cay, "/api/v1/namespaces", cert, key) == 401
