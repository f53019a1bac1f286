# SPDX-License-Identifier: Apache-2.0
"""What hostile people put wherever the page shows something is shown as text, harmlessly, and the page stays whole."""

import http.client
import json
import re
import urllib.parse

import pytest

from corpus import ELEMENTS, MARKUP
from page_kit import Visitor, expect
from world import SANDBOXES, TEXTS, hostile

LISTS = ["", "sandboxes", "sessions", "approvals", "agents", "budgets", "audit", "templates"]
OBJECTS = ["sandboxes/default/hostile", "sandboxes/default/sad", "sandboxes/default/of-0", "sessions/default/h0", "sessions/default/h94", "approvals/default/argv",
           "approvals/default/more-3", "agents/default/hostile-0", "agents/default/hostile-90", "budgets/default/hostile", "templates/default/hostile", "templates/default/image-0"]
KEPT = {"name", "namespace", "uid", "resourceVersion", "kind", "apiVersion", "continue"}
# These decide what is drawn at all; a first pass leaves them as they are, a second one does not.
FORMS = re.compile(r"(?i)(time|timestamp|expires|at|phase|decision|status|type|mode|action|cpu|memory|disk|network\w*|storage|agent|session|sandbox|parent|budget|policy|period|limits?|view|form|protocol)$")


@pytest.fixture(scope="module")
def cay(cay):
    hostile(cay)
    return cay


@pytest.fixture(scope="module")
def one_visitor(chromium, cay):
    me = Visitor(chromium, cay).log_in()
    yield me
    me.close()


@pytest.fixture
def guest(one_visitor):
    """The same visitor for all of the module; what went wrong is told at each test's end."""
    yield one_visitor
    wrong, one_visitor.wrong = one_visitor.wrong, []
    assert not wrong, "\n".join(wrong)


def settled(me):
    expect(me.page.locator("main")).not_to_contain_text("Loading…")
    return me


SCROLL = """async () => {
    const draw = () => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
    for (const e of [...document.querySelectorAll("main, main *")].filter((e) => e.scrollHeight > e.clientHeight + 20 && /auto|scroll/.test(getComputedStyle(e).overflowY)))
        for (let n = 0, at = -1; e.scrollTop !== at && n < 80; n++) {
            at = e.scrollTop;
            e.scrollTop += e.clientHeight * 0.9;
            await draw();
        }
    for (const e of document.querySelectorAll("main details")) e.open = true;
    await draw();
}"""


def checked(me):
    settled(me)
    me.page.evaluate(SCROLL)
    me.unharmed().framed()
    assert not me.wrong, me.wrong


def walk(me, paths):
    """Each screen, each of its tabs, all of its lists to their ends."""
    for path in paths:
        me.go(path)
        expect(me.page.locator("main h1")).to_be_visible()
        checked(me)
        me.shot("hostile-" + (path.replace("/", "-") or "overview"))
        for i in range(me.page.get_by_role("tab").count()):
            me.page.get_by_role("tab").nth(i).click()
            checked(me)


def test_objects_are_shown_as_text(cay, guest):
    walk(guest, LISTS + OBJECTS)


def test_texts_are_there_as_they_are(cay, guest):
    """They are shown, and not merely left out."""
    def whole():
        return guest.page.evaluate("() => document.querySelector('main').textContent")
    guest.go("sandboxes/default/sad")
    guest.see(ELEMENTS[1])
    settled(guest)
    said = whole()
    for s in MARKUP[:40]:
        assert s in said, f"{s!r} is not among the conditions"
    guest.go("sandboxes/default/hostile?tab=events&q=" + urllib.parse.quote("open ontoggle"))
    guest.see("<details open ontoggle=window.hit=1>")
    guest.go("sessions?q=" + urllib.parse.quote("<svg><animate"))
    guest.see("<svg><animate")


def test_a_question_hides_nothing(cay, guest):
    """Every word of the command is there, in a box of its own, and what would not be seen is written out."""
    guest.go("approvals/default/argv")
    words = guest.page.get_by_role("list", name=re.compile("The command"))
    expect(words.get_by_role("listitem")).to_have_count(len(TEXTS))
    for s, shown in zip(TEXTS, words.get_by_role("listitem").all_text_contents()):
        assert not re.search(r"[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]", shown), f"{s!r} is shown as {shown!r}"
        if s.isascii() and s.isprintable() and '"' not in s and "\\" not in s and s == s.strip() and "  " not in s:
            assert shown == f'"{s}"'
    assert any("\\u202egnp.exe" in w for w in words.get_by_role("listitem").all_text_contents())
    assert any("\\u001b[2J" in w for w in words.get_by_role("listitem").all_text_contents())
    guest.see("\u0430 U+0430").unharmed().framed()


def test_logs_files_and_terminals(cay, guest):
    me = guest
    me.go("sandboxes/default/hostile?tab=logs")
    me.see("the end of the log")
    checked(me)
    me.shot("hostile-log")
    me.go("sandboxes/default/hostile?tab=terminal")
    screen = me.page.get_by_role("textbox", name=re.compile("Terminal"))
    expect(me.page.get_by_text("Connected", exact=True)).to_be_visible()
    screen.focus()
    me.page.keyboard.type("cat /tmp/all; printf '\\033c'; echo the-end-of-$((40+2))\n")
    terminal = me.page.locator(".xterm-rows, .xterm-accessibility")
    expect(terminal.first).to_contain_text("the-end-of-42")
    me.unharmed().framed().shot("hostile-terminal")
    assert me.page.evaluate("() => navigator.clipboard.readText().catch(() => '')") != "planted", "a terminal wrote the clipboard"
    assert not me.page.locator("a[href*='evil.invalid']").count()
    assert not me.wrong, me.wrong


def deep(o, next_text, forms, key=""):
    if isinstance(o, dict):
        return {k: deep(v, next_text, forms, k) for k, v in o.items()}
    if isinstance(o, list):
        return [deep(v, next_text, forms, key) for v in o]
    if isinstance(o, str) and key not in KEPT and (forms or not FORMS.search(key)):
        return next_text()
    return o


@pytest.mark.parametrize("forms", [False, True], ids=["texts", "forms too"])
def test_a_server_that_lies(cay, guest, forms):
    """Whichever field it is: every text of every list is one of the corpus. Other servers, or older ones, may let through what this one refuses."""
    me = guest
    count = [0]

    def next_text():
        count[0] += 1
        return TEXTS[count[0] % len(TEXTS)][:1500]

    def forge(route):
        if "watch=true" in route.request.url or "follow=true" in route.request.url:
            return route.continue_()
        try:
            answer = route.fetch()
            body = answer.json()
        except Exception:
            return route.continue_()
        # Titles that the page did not write are still texts.
        return route.fulfill(status=answer.status, content_type="application/json", body=json.dumps(deep(body, next_text, forms)))

    lists = re.compile(r"/(agents\.x-k8s\.io|extensions\.agents\.x-k8s\.io|cay\.dev|metrics\.k8s\.io)/v|/api/v1/(namespaces/default/)?(events|pods|nodes)")
    me.page.route(lists, forge)
    try:
        walk(me, LISTS + OBJECTS[:2] + ["sessions/default/h0", "approvals/default/argv", "agents/default/hostile-0", "budgets/default/hostile", "templates/default/hostile"])
    finally:
        me.page.unroute(lists)
    assert count[0] > 1000, "hardly anything was forged"


def test_errors_that_quote_what_was_sent(cay, guest):
    """A message of the server is a text like others, however long; the advice stands below it."""
    me = guest
    me.go("sandboxes/default/sad")
    texts = [*MARKUP[:12], "x" * 5000]

    def refuse(route):
        route.fulfill(status=422, content_type="application/json", body=json.dumps({"kind": "Status", "code": 422, "reason": "Invalid", "message": " ".join(texts),
                      "details": {"causes": [{"field": s, "message": s} for s in texts]}}))

    me.page.route("**/sandboxes/sad", refuse)
    me.button("Resume").first.click()
    me.button("Resume").first.click()
    me.see("Correct the fields that the message names").see(MARKUP[0])
    me.unharmed().framed().shot("hostile-error")
    notice = me.page.get_by_role("alert").first.bounding_box()
    assert notice["x"] >= 0 and notice["x"] + notice["width"] <= 1280
    me.button("Dismiss").first.click()
    me.page.unroute("**/sandboxes/sad")
    # What the server itself answers.
    for s in (MARKUP[1], "\u202e", "a/../../b", "%00", "x" * 300):
        me.go("sandboxes?new=1")
        dialog = me.page.get_by_role("dialog", name="New sandbox")
        dialog.get_by_label("Name").fill(s)
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        me.unharmed().framed()


ADDRESSES = [
    *(f"{screen}?{key}={{}}" for screen, key in (("sandboxes", "q"), ("sandboxes", "ns"), ("sandboxes", "by"), ("sandboxes", "state"), ("sandboxes", "new"), ("sessions", "tab"), ("approvals", "tab"),
                                                   ("audit", "user"), ("budgets", "tab"), ("templates", "q"), ("", "ns"))),
    "{}", "sandboxes/{}", "sandboxes/default/{}", "sandboxes/{}/{}", "sandboxes/default/hostile?tab={}", "sandboxes/default/hostile?tab=files&path={}", "sandboxes/default/hostile?tab=logs&container={}",
    "sessions/default/{}", "approvals/default/{}", "agents/default/{}", "budgets/default/{}", "templates/default/{}", "sandboxes#{}", "#{}", "#code={}",
]
AT = [f"<img src=x onerror=window.hit=1>", "\"><script>window.hit=1</script>", "javascript:window.hit=1", "\u202etxt.exe", "__proto__", "../../../x", "x" * 3000, "%", "%00%ff"]


def test_the_address_itself(cay, guest):
    """A link from somebody hostile shows at worst that there is nothing."""
    me = guest
    me.go("")
    for i, form in enumerate(ADDRESSES):
        for s in (AT[i % len(AT)], AT[(i + 4) % len(AT)], AT[0]):
            address = form.replace("{}", urllib.parse.quote(s, safe="") if s[0] != "%" else s)
            # As a link within the page would be followed; three of them are loaded from the server as well.
            if i % 9 == 0:
                me.go(address)
            else:
                me.page.evaluate("(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }", f"/ui/{address}")
            expect(me.page.get_by_role("navigation", name="Screens")).to_be_visible()
            me.page.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
            me.unharmed().framed()
            expect(me.page.locator("main")).not_to_contain_text("This part of the page failed")
            assert not me.wrong, (address, me.wrong)
    me.page.evaluate("() => localStorage.clear()")


def test_the_audit_log_of_hostile_users(cay, guest):
    """Users are whoever an administrator acts as; the header takes most of the corpus."""
    names = [s for s in TEXTS if s.isascii() and s.isprintable() and s.strip() == s and s]
    conn = cay.connect()
    for s in names:
        conn.request("GET", f"{SANDBOXES}/{urllib.parse.quote(s, safe='')}", headers={"Impersonate-User": s, "User-Agent": s})
        conn.getresponse().read()
        conn.request("POST", SANDBOXES, body=json.dumps({"metadata": {"name": s}}), headers={"Impersonate-User": s, "Content-Type": "application/json", "User-Agent": s})
        conn.getresponse().read()
    conn.close()
    for s in names[::12]:
        guest.go("audit?" + urllib.parse.urlencode({"user": s}))
        expect(guest.page.get_by_role("table", name="Audit").get_by_text(s[:40]).first).to_be_visible()
        guest.unharmed()
    walk(guest, ["audit", "audit?refused=1"])


def test_the_frame_is_kept_by_its_policy(cay):
    """Even markup that became part of the page could load and run nothing."""
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, context=cay.context())
    conn.request("GET", "/ui/sandboxes")
    policy = conn.getresponse().headers["Content-Security-Policy"]
    conn.close()
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe-eval" not in policy and re.search("frame-ancestors 'none'", policy)
