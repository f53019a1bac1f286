# SPDX-License-Identifier: Apache-2.0
"""Getting in and out: links, tokens, their end, and what somebody without rights sees."""

import re

from cay_local import wait_until
from page_kit import expect, load, token_for
from world import sandbox

LOGIN = "Log in to Cay"


def test_a_link_logs_in_once_and_leaves_the_address(cay, visit):
    first = visit(cay)
    link = first.link()
    first.log_in(link)
    assert first.page.url == f"{first.base}/ui/"
    assert "code=" not in first.page.evaluate("() => JSON.stringify(performance.getEntries().map((e) => e.name))").replace(link, "")
    second = visit(cay)
    second.page.goto(link)
    second.heading(LOGIN).see("This link has already been used").axe().shot("login")


def test_the_token_is_in_no_cookie_and_no_address(cay, visitor):
    token = visitor.page.evaluate("() => sessionStorage.getItem('cay.token')")
    assert token and visitor.context.cookies() == []
    assert token not in visitor.page.url
    assert token not in visitor.page.evaluate("() => JSON.stringify(localStorage) + document.cookie + document.documentElement.outerHTML")


def test_a_token_logs_in_and_survives_a_reload_of_this_tab_alone(cay, visit):
    token = token_for(cay, "viewer", "view")
    me = visit(cay).log_in_by_token(f"  {token}\n")
    me.see("system:serviceaccount:default:viewer")
    me.page.reload()
    me.see("system:serviceaccount:default:viewer")
    other = me.context.new_page()
    load(other, f"{me.base}/ui/sandboxes")
    expect(other.get_by_role("heading", name=LOGIN)).to_be_visible()
    me.button("Log out").click()
    me.heading(LOGIN)
    me.page.reload()
    me.heading(LOGIN)


def test_what_is_no_token_is_refused_with_a_reason(cay, visit):
    me = visit(cay).log_in_by_token("wrong")
    me.heading(LOGIN).see("The server does not accept this token")
    token = me.page.get_by_role("textbox", name="Token", exact=True)
    expect(token).to_have_accessible_description(re.compile("kubectl create token NAME.*The server does not accept this token"))
    expect(token).to_have_attribute("aria-invalid", "true")
    token.fill("right")
    me.axe()
    me.log_in_by_token("two words").see("A token has no spaces")
    me.log_in_by_token("<img src=x onerror=window.hit=1>".replace(" ", "%20")).see("The server does not accept this token").unharmed()


def test_who_lost_their_access_is_told_and_comes_back_where_they_were(cay, visit):
    token = token_for(cay, "passing", "view")
    me = visit(cay).log_in_by_token(token)
    me.see("system:serviceaccount:default:passing")
    me.go("templates")
    me.heading("Templates")
    cay.kubectl("delete", "serviceaccount", "passing")
    me.heading(LOGIN).see("Your session has ended, or your access was revoked")
    cay.kubectl("create", "serviceaccount", "passing")
    again = cay.kubectl("create", "token", "passing").stdout.strip()
    me.page.get_by_label("Token").fill(again)
    me.button("Log in").click()
    me.heading("Templates")


def test_who_has_no_rights_sees_the_frame_and_what_to_ask_for(cay, visit):
    me = visit(cay).log_in_by_token(token_for(cay, "nobody"))
    for screen in ("sandboxes", "sessions", "approvals", "agents", "budgets", "templates"):
        me.page.get_by_role("navigation").get_by_role("link", name=re.compile(screen, re.I)).click()
        me.see("You may not see this").see("Ask an administrator")
        me.axe()
    expect(me.page.get_by_label("Namespace")).to_be_editable()


def anew(me):
    """Whether the page was loaded since it was marked."""
    return me.page.evaluate("() => window.marked === undefined")


def mark(me):
    me.page.evaluate("() => { window.marked = true; }")


def type_in_terminal(me, words, answer):
    expect(me.page.get_by_text("Connected", exact=True)).to_be_visible()
    me.page.get_by_role("textbox", name=re.compile("Terminal")).focus()
    me.page.keyboard.type(words + "\n")
    expect(me.page.locator(".xterm-rows")).to_contain_text(answer)


def lose_access(me, screen, plural):
    """As if the token had expired: the server takes it no more, as a screen finds that is shown for the first time."""
    refused = {"status": 401, "content_type": "application/json", "body": '{"kind": "Status", "code": 401, "message": "Unauthorized"}'}
    me.page.route(f"**/{plural}?*", lambda r: r.fulfill(**refused))
    me.page.get_by_role("navigation", name="Screens").get_by_role("link", name=screen).click()
    me.heading(LOGIN)
    me.page.unroute(f"**/{plural}?*")


def test_who_logs_out_leaves_no_shell_behind(cay, visit):
    sandbox(cay, "desk")
    first, second = (token_for(cay, n, "cluster-admin", cluster=True) for n in ("first", "second"))
    me = visit(cay)
    me.log_in_by_token(first).see("system:serviceaccount:default:first")
    me.go("sandboxes/default/desk?tab=terminal")
    type_in_terminal(me, "mine=$((40+2)); echo $$ >/tmp/shell; echo secret-$mine", "secret-42")
    lives = ("exec", "desk", "--", "sh", "-c", 'kill -0 "$(cat /tmp/shell)"')
    assert cay.kubectl(*lives, check=False).returncode == 0
    mark(me)
    me.button("Log out").click()
    me.heading(LOGIN)
    assert anew(me) and me.page.url.endswith("/ui/sandboxes/default/desk?tab=terminal")
    wait_until(lambda: cay.kubectl(*lives, check=False).returncode)
    assert me.page.evaluate("() => JSON.stringify(sessionStorage)") == "{}"
    me.page.get_by_label("Token").fill(second)
    me.button("Log in").click()
    me.see("system:serviceaccount:default:second")
    type_in_terminal(me, "echo is-$mine-$((1+1))", "is--2")
    expect(me.page.locator(".xterm-rows")).not_to_contain_text("secret")


def test_what_one_wrote_waits_for_them_and_for_nobody_else(cay, visit):
    sandbox(cay, "paper")
    cay.kubectl("exec", "paper", "--", "sh", "-c", "echo old > /tmp/note")
    one, other = (token_for(cay, n, "cluster-admin", cluster=True) for n in ("one", "other"))
    me = visit(cay)
    me.log_in_by_token(one).see("system:serviceaccount:default:one")
    me.go("sandboxes/default/paper?tab=files&path=/tmp/note").see("system:serviceaccount:default:one")
    note = me.page.get_by_label("Content of note")
    note.fill("private\n")
    for token, mine, *screen in ((one, True, "Templates", "sandboxtemplates"), (other, False, "Agents", "agents")):
        mark(me)
        lose_access(me, *screen)
        me.page.get_by_label("Token").fill(token)
        me.button("Log in").click()
        me.heading(screen[0])
        assert anew(me) is not mine
        me.turn("sandboxes/default/paper?tab=files&path=/tmp/note")
        expect(note).to_have_value("private\n" if mine else "old\n")
    me.go("templates")  # nobody is asked whether to leave


def test_a_program_in_a_sandbox_logs_nobody_out(cay, visitor):
    """It answers in the place of the runtime API that nobody is known to it, and without end."""
    rude = """
import http.server
class Rude(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"A" * 65536)
        except OSError:
            pass
    do_POST = do_DELETE = do_GET
http.server.ThreadingHTTPServer(("0.0.0.0", 8888), Rude).serve_forever()
"""
    sandbox(cay, "rude", "python3", "-c", rude, ports=[{"name": "api", "containerPort": 8888}])
    asked = []
    visitor.page.on("response", lambda r: asked.append(r.status) if ":8888/proxy" in r.url else None)
    visitor.go("sandboxes/default/rude?tab=terminal")
    type_in_terminal(visitor, "echo $((40+2))-is-it", "42-is-it")
    assert 401 in asked
    expect(visitor.page.get_by_role("navigation", name="Screens")).to_be_visible()
