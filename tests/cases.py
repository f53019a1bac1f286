# SPDX-License-Identifier: Apache-2.0
"""Cases that no test carries the number of, and why. tools/conformance reads it, and names the rows that are no longer true.

    client      it is about what a client does by itself: its own tests show it, no server could fail it
    upstream    it is about the inside of upstream's program, or a setting that it has and Cay has not
    not served  Cay deliberately does not have it (docs/reference/differences.md)
    elsewhere   it is shown under another name
    untested    Cay does it, and no test shows it
"""

ABSENT = (
    # series, cases, kind, why
    ("case", "28", "upstream", "nothing is upgraded: objects are stored in v1beta1 from the start"),
    ("case", "42", "untested", "the node reports no Pod in phase Unknown"),
    ("case", "89", "not served", "there are no traces"),
    ("case", "112", "elsewhere", "U14: a legacy pod-name is honoured"),
    ("case", "120–122", "upstream", "delayed metadata patches are an option of upstream's controller"),
    ("case", "154, 157", "untested", "the comparison of blueprints is a table in template_test.c"),
    ("case", "163–166", "untested", "the grace periods last minutes; pool_test.c has what is decided by them"),
    ("case", "167–174", "upstream", "its bookkeeping, and options of its controller"),
    ("case", "191", "upstream", "creation and binding are one write here"),
    ("case", "194", "untested", "its neighbours in test_claim.py cover most of it"),
    ("case", "232", "upstream", "gone in 1.0: U13"),
    ("case", "259–263", "untested", "conflicts cannot happen in one process; on a cluster tests/cluster counts the writes"),
    ("case", "264", "upstream", "gone in 1.0: U13"),
    ("case", "268, 270", "untested", "that nobody is woken has no event to wait for"),
    ("case", "273–280", "not served", "upstream's metrics of claims and Sandboxes"),
    ("case", "281", "not served", "there are no traces"),
    ("case", "282", "untested", "tests/cluster stops a controller and looks at the lease"),
    ("case", "283–285", "upstream", "certificates of the conversion webhook, gone in 1.0"),
    ("case", "286, 287", "upstream", "settings of upstream's controller"),
    ("u", "25", "not served", "upstream's metrics of claims and Sandboxes"),
    ("dataplane", "103, 105", "upstream", "names of Services are not asked: the router knows its Sandboxes"),
    ("dataplane", "129", "upstream", "how long it waits between tries is the router's own business"),
    ("dataplane", "131, 132", "upstream", "there is no cache of addresses that could be wrong"),
    ("dataplane", "137–139, 142", "upstream", "limits of upstream's relay for WebSockets: here bytes pass as they are"),
    ("dataplane", "156, 164, 169", "upstream", "settings of its router in Python, and of its traces"),
    ("dataplane", "161", "upstream", "there is no cache of Pods"),
    ("dataplane", "184, 185, 188, 190", "client", "what it accepts and chooses"),
    ("dataplane", "200–209", "client", "what it forgets, writes, reads and measures"),
    ("dataplane", "214–221", "not served", "snapshots are an API of one cloud"),
    ("dataplane", "224, 225, 232, 234, 238, 240–242, 244", "client", "time-outs, repetitions and errors of the Go client"),
)
