"""Text from outside in Markdown: it is shown as it is, and on GitHub it calls nobody and links nowhere."""

from __future__ import annotations

import pytest

from reports.present.markdown import escaped, escaped_sentence


@pytest.mark.parametrize("write", [escaped, escaped_sentence])
@pytest.mark.parametrize(
    "text", ["@somebody", "by @a-b and @c", "fixes #12", "http://e.x/i.png", "HTTPS://e.x", "WWW.e.x", "ftp://e.x"]
)
def test_names_numbers_and_addresses_are_broken_by_a_space_without_width(write, text):
    markdown = write(text)
    for sign in ("@s", "@a", "@c", "#1", "://e", "www.e", "WWW.e"):
        assert sign not in markdown
    assert markdown.replace("\u200b", "").replace("\\", "") == text  # and nothing else is added


@pytest.mark.parametrize("write", [escaped, escaped_sentence])
def test_signs_that_call_nobody_have_nothing_added(write):
    assert "\u200b" not in write("a @ b, C# and # 3, 1:2, www")


def test_commands_stay_code_and_labels_in_backticks_do_not():
    escaped = escaped_sentence("`a*b` and `code`: see `roofline diff a b`, `-k model_quant`, `roofline | <b> @all`")
    assert "see `roofline diff a b`, `-k model_quant`, \\`roofline \\| \\<b" in escaped
    assert escaped.startswith("\\`a\\*b\\` and \\`code\\`: ")
    assert "@all" not in escaped
