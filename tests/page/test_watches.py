# SPDX-License-Identifier: Apache-2.0
"""What keeps lists up to date: watches that die without a word, end as soon as they begin, or are refused."""

from cay_local import wait_until
from page_kit import expect, token_for
from world import template

REFUSED = {"status": 401, "content_type": "application/json", "body": '{"kind": "Status", "code": 401, "message": "Unauthorized"}'}


def watches_of(page, plural):
    seen = []
    page.on("request", lambda r: seen.append(r.url) if f"/{plural}?" in r.url and "watch=true" in r.url else None)
    return seen


def test_a_watch_that_says_nothing_is_begun_anew(cay, visitor):
    visitor.page.clock.install()
    seen = watches_of(visitor.page, "sandboxtemplates")
    visitor.go("templates").heading("Templates")
    wait_until(lambda: visitor.page.evaluate("() => 1") and seen)
    visitor.page.wait_for_load_state("load")
    asked = len(seen)
    visitor.page.clock.fast_forward(100_000)
    visitor.heading("Templates")
    assert len(seen) == asked  # a bookmark would come each minute
    visitor.page.clock.fast_forward(100_000)
    wait_until(lambda: visitor.page.evaluate("() => 1") and len(seen) > asked)
    expect(visitor.page.get_by_text("The connection to the server is lost")).to_be_hidden()
    template(cay, "after-silence")
    visitor.see("after-silence")


def test_a_watch_that_ends_as_soon_as_it_begins_is_asked_for_ever_more_seldom(cay, visitor):
    seen = watches_of(visitor.page, "sandboxtemplates")
    visitor.page.route("**/sandboxtemplates?*watch=true*", lambda r: r.fulfill(status=200, content_type="application/json", body=""))
    visitor.go("templates").heading("Templates")
    wait_until(lambda: visitor.page.evaluate("() => 1") and len(seen) >= 2)
    visitor.page.wait_for_timeout(3000)
    assert len(seen) <= 12, len(seen)
    visitor.page.unroute("**/sandboxtemplates?*watch=true*")
    template(cay, "after-haste")
    visitor.see("after-haste")


def test_the_same_token_again_at_once(cay, visit):
    """What the server refused a moment ago is asked for anew."""
    template(cay, "still-there")
    token = token_for(cay, "back", "view")
    me = visit(cay).log_in_by_token(token)
    me.see("system:serviceaccount:default:back")
    me.page.route("**/sandboxtemplates?*", lambda r: r.fulfill(**REFUSED))
    me.page.get_by_role("navigation", name="Screens").get_by_role("link", name="Templates").click()
    me.heading("Log in to Cay")
    me.page.unroute("**/sandboxtemplates?*")
    me.page.get_by_label("Token").fill(token)
    me.button("Log in").click()
    me.heading("Templates").see("still-there")
