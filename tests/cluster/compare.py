# SPDX-License-Identifier: Apache-2.0
"""Prints claimload results beside each other and fails unless every sequential claim became Ready from the pool."""

import json
import sys


def main(count, files):
    bad = []
    print(f"{'server':<16}{'scenario':<12}{'sent':>6}{'failed':>8}{'warm':>6}{'p50 ms':>9}{'p90 ms':>9}{'p99 ms':>9}{'max ms':>9}"
          f"{'cpu s':>8}{'writes':>8}")
    for name in files:
        report = json.load(open(name))
        for r in report["results"]:
            ready = r["post_to_ready"]
            cpu = sum(v for k, v in r["cpu_s"].items() if k in ("controller", "serve"))
            writes = sum(q["count"] for q in r.get("requests_about_claimed") or []
                         if q.get("verb") in ("create", "update", "patch", "delete") and "cay-controller" in q.get("user", ""))
            print(f"{report.get('label', '?'):<16}{r['scenario']:<12}{r['sent']:>6}{r['failed']:>8}{r['warm']:>6}{ready['p50_ms']:>9.2f}"
                  f"{ready['p90_ms']:>9.2f}{ready['p99_ms']:>9.2f}{ready['max_ms']:>9.2f}{cpu:>8.2f}"
                  f"{writes / r['sent'] if writes else float('nan'):>8.1f}")
            for q in r.get("requests_refused") or []:
                print(f"    refused: {json.dumps(q)}")
            if r["failed"] or r["warm"] != r["sent"] or (r["scenario"] == "sequential" and r["sent"] != count):
                bad.append(f"{report.get('label')} {r['scenario']}: {r['failed']} failed, {r['warm']} of {r['sent']} warm: "
                           f"{r.get('first_error', '')}")
    for text in bad:
        print(f"FAILED {text}")
    print(f"{'0 passed, 1 failed' if bad else '1 passed, 0 failed'}, 0 skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
