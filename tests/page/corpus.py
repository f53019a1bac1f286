# SPDX-License-Identifier: Apache-2.0
"""Texts that somebody hostile would put wherever a page shows something.

Each calls hit() or leaves an element behind if a page takes it for markup or code, moves a terminal's cursor or changes its title if it is
passed on as it is, or breaks a layout that trusts texts to be short and to run from left to right.
"""

HIT = "window.hit=1"

ELEMENTS = [
    f"<script>{HIT}</script>",
    f"<img src=x onerror={HIT}>",
    f"<svg onload={HIT}>",
    f"<svg><script>{HIT}</script></svg>",
    f"<body onload={HIT}>",
    f"<iframe src=javascript:{HIT}></iframe>",
    f"<iframe srcdoc=\"<script>parent.{HIT}</script>\"></iframe>",
    f"<object data=javascript:{HIT}></object>",
    f"<embed src=javascript:{HIT}>",
    f"<a href=javascript:{HIT} id=planted>click</a>",
    f"<a href=\"data:text/html,<script>{HIT}</script>\" id=planted>click</a>",
    f"<details open ontoggle={HIT}>",
    f"<video><source onerror={HIT}></video>",
    f"<audio src=x onerror={HIT}>",
    f"<input autofocus onfocus={HIT}>",
    f"<select autofocus onfocus={HIT}>",
    f"<textarea autofocus onfocus={HIT}>",
    f"<marquee onstart={HIT}>",
    f"<form action=javascript:{HIT}><button>go</button></form>",
    f"<button formaction=javascript:{HIT}>go</button>",
    f"<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=x onerror={HIT}&gt;\">",
    f"<template><script>{HIT}</script></template>",
    f"<noscript><p title=\"</noscript><img src=x onerror={HIT}>\">",
    f"<style>@import 'javascript:{HIT}';*{{display:none!important}}</style>",
    "<style>*{visibility:hidden!important}</style>",
    "<link rel=stylesheet href=data:text/css,*{display:none}>",
    "<base href=https://evil.invalid/>",
    f"<meta http-equiv=refresh content=\"0;url=javascript:{HIT}\">",
    "<h1 id=planted>planted</h1>",
    "<b id=planted>planted</b>",
    "<dialog open id=planted>planted</dialog>",
    "<div style=\"position:fixed;inset:0;background:red\" id=planted></div>",
    "<plaintext>",
    "<xmp>",
    "<!--",
    "--><b id=planted>",
    "<![CDATA[<b id=planted>]]>",
    "<?xml version='1.0'?><b id=planted>",
    f"<custom-element onmouseover={HIT} style=display:block>",
    f"<image src=x onerror={HIT}>",
    f"<IMG SRC=x OnErRoR={HIT}>",
    f"<img/src=x/onerror={HIT}>",
    f"<img src=x onerror=&#119;indow.hit=1>",
    f"<img src=`x` onerror={HIT}>",
    f"<svg/onload={HIT}//",
    f"<svg><animate onbegin={HIT} attributeName=x dur=1s>",
    f"<svg><use href=\"data:image/svg+xml,<svg id=x onload={HIT}>#x\"/></svg>",
    f"<isindex type=image src=1 onerror={HIT}>",
    f"<keygen autofocus onfocus={HIT}>",
    f"<object type=text/x-scriptlet data=x></object>",
]

ESCAPES_FROM = [
    f"\"><script>{HIT}</script>",
    f"'><script>{HIT}</script>",
    f"</title><script>{HIT}</script>",
    f"</textarea><script>{HIT}</script>",
    f"</script><script>{HIT}</script>",
    f"</style><script>{HIT}</script>",
    f"</option></select><img src=x onerror={HIT}>",
    f"</svg><img src=x onerror={HIT}>",
    f"\" autofocus onfocus={HIT} x=\"",
    f"' onmouseover={HIT} '",
    f"` onmouseover={HIT} `",
    f"javascript:{HIT}",
    f"JaVaScRiPt:{HIT}",
    f"java\tscript:{HIT}",
    f"\x01javascript:{HIT}",
    f"data:text/html,<script>{HIT}</script>",
    f"vbscript:{HIT}",
    f"//evil.invalid/x.js",
    f"\\u003cscript\\u003e{HIT}\\u003c/script\\u003e",
    f"&lt;script&gt;{HIT}&lt;/script&gt;",
    f"&#60;script&#62;{HIT}&#60;/script&#62;",
    f"%3Cscript%3E{HIT}%3C/script%3E",
    f"${{{HIT}}}",
    f"{{{{{HIT}}}}}",
    f"{{{{constructor.constructor('{HIT}')()}}}}",
    f"';{HIT};//",
    f"\";{HIT};//",
    f"\\\";{HIT};//",
    f"*/{HIT}/*",
    f"__proto__",
    "constructor",
    "toString",
    "../../../../etc/passwd",
    "{\"__html\":\"<b id=planted>\"}",
    "[object Object]",
]

MARKS = [
    "\u202egnp.exe",  # from right to left
    "\u202atext\u202c",
    "\u2066isolated\u2069",
    "a\u200bb\u200cc\u200dd\ufeffe",  # that take no room
    "\u0430dmin",  # looks like a Latin a
    "e\u0301" + "\u0301" * 60,  # marks upon marks
    "\u0001\u0002\u0007\u0008\u000b\u000c\u000e\u001f\u007f",
    "line\nbreak\r\nand\rreturn\ttab",
    "\u2028separator\u2029",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "\ufffd\ufffe",
    "x" * 5000,
    "long " * 800,
    " ",
    "   leading and trailing   ",
    "𝕬𝖉𝖒𝖎𝖓",
]

TERMINAL = [
    "\x1b[31mred\x1b[0m",
    "\x1b[2J\x1b[H",  # clears the screen
    "\x1b[?1049h",  # another screen
    "\x1b[8m hidden \x1b[0m",
    "\x1b]0;planted title\x07",
    "\x1b]2;planted title\x1b\\",
    "\x1b]52;c;cGxhbnRlZA==\x07",  # writes the clipboard
    "\x1b]8;;javascript:window.hit=1\x1b\\click\x1b]8;;\x1b\\",  # a link
    "\x1b]8;;https://evil.invalid/\x1b\\click\x1b]8;;\x1b\\",
    "\x1b[21t",  # asks for the title
    "\x1b[c\x1b[>c\x1b[6n",  # asks who and where the terminal is
    "\x1bP$qm\x1b\\",
    "\x1b[5i\x1b[4i",  # prints
    "\x1b[1000000A\x1b[1000000C",
    "\x1b[1000000000b",  # the last character very often
    "\x1b[?1000h\x1b[?1006h",  # mouse
    "\x1b[?2004h",
    "\x1bc",
    "\x1b#8",
    "\x9b31mC1",
    "\x1b[38;2;0;0;0;48;2;0;0;0mblack on black\x1b[0m",
    "\x1b_planted\x1b\\\x1b^planted\x1b\\",
]

MARKUP = ELEMENTS + ESCAPES_FROM
STRINGS = MARKUP + MARKS + TERMINAL
assert len(set(STRINGS)) == len(STRINGS) >= 100, len(STRINGS)


def storable(s):
    """As JSON and the API take it: no lone surrogates, no NUL."""
    return s.replace("\x00", "")
