"""Layout of documents within a width."""

from weft.base.text import brk, concat, group, join, keyword, nest, nil, text, type_annotation


def words(*given):
    return join(brk(), [text(w) for w in given])


def test_groups_break_all_or_nothing():
    doc = group(nest(2, words("one", "two", "three")))
    assert doc.format(13) == "one two three"
    assert doc.format(12) == "one\n  two\n  three"
    assert str(nil()) == "" == join(brk(), []).format()


def test_inner_groups_break_last():
    doc = group(concat([text("f("), nest(2, brk("") + group(words("a", "b"))), brk(""), text(")")]))
    assert doc.format(6) == "f(a b)"
    assert doc.format(5) == "f(\n  a b\n)"
    assert doc.format(4) == "f(\n  a\n  b\n)"


def test_breaks_outside_groups_are_lines():
    assert (text("a") + brk("; ") + text("b")).format() == "a\nb"
    assert group(text("a") + brk("; ") + text("b")).format() == "a; b"


def test_annotations_line_up():
    doc = join(brk(), [text("a", "first"), text("longer", "second"), text("c")])
    assert doc.format() == "a      # first\nlonger # second\nc"
    both = concat([text("a", "first"), text("b", "second")])
    assert both.format(annotation_prefix=" | ") == "ab | first\n   | second"


def test_colours():
    doc = concat([keyword(text("let")), brk(), text("a"), type_annotation(text(":f32"))])
    assert doc.format() == "let\na:f32"
    coloured = doc.format(use_color=True)
    assert coloured == "\x1b[34;1mlet\n\x1b[39;22ma\x1b[35m:f32\x1b[39m"


def test_depth_is_no_limit():
    doc = text("x")
    for _ in range(20_000):
        doc = group(nest(0, doc + text("")))
    assert doc.format() == "x"
