"""Sentences on the page: commands are code, numbers keep their units, and nothing that others wrote is markup."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reports.document.report import Report
from reports.document.report_blocks import report_blocks
from reports.page.html import print_page, prose, render_page
from reports.present.markdown import markdown
from reports.view.views import report_view


def test_commands_in_backticks_are_code():
    assert prose("run `roofline calibrate` first: 5 % of 2 µs") == (
        "run <code>roofline calibrate</code> first: 5\u00a0% of 2\u00a0µs"
    )
    assert (prose("``"), prose("`one alone"), prose("`two\nlines`")) == ("``", "`one alone", "`two\nlines`")


def test_hostile_text_is_escaped_in_a_command_as_outside():
    hostile = prose('`<b onclick=x>"` <i> & `one alone')
    assert hostile == "<code>&lt;b onclick=x&gt;&#34;</code> &lt;i&gt; &amp; `one alone"


@given(st.text(alphabet="`<>&\"'/ %a\n"))
def test_no_tag_but_code_is_ever_made_and_each_is_closed(text):
    tags = re.findall(r"<[^>]*>", str(prose(text)))
    assert tags == ["<code>", "</code>"] * (len(tags) // 2)


def test_notes_show_their_commands_as_code_on_the_page_and_as_they_are_in_markdown(make):
    note = "skipped: `roofline calibrate <chip>` writes it"
    failed = replace(make.record((1, 64, 64), "FP16", "FP16", "k", number=2), status="failed", reason=note)
    view = report_view(
        make.run(), [make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3), failed], make.profiles(make.CPU)
    )
    page = render_page(view)
    assert page.count("skipped: <code>roofline calibrate &lt;chip&gt;</code> writes it") >= 2
    text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", "", page, flags=re.DOTALL)  # a tooltip holds no markup
    assert "`" not in text
    assert "`roofline calibrate" in markdown(report_blocks(Report(view)))
    assert "skipped: <code>roofline calibrate &lt;chip&gt;</code> writes it" in print_page(view)
