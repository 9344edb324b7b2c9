"""Programs print as JAX prints them; the texts here were recorded from JAX 0.10.2."""

import textwrap
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from weft.base import source
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.core.printing import Context, Settings, jaxpr_to_text, letters, pp_eqn


class Aval:
    dtype = np.dtype("float32")

    def __init__(self, text):
        self.text = text

    def str_short(self, short_dtypes=False):
        return self.text


SCALAR = Aval("f32[]")


def var(text="f32[]"):
    return Var(Aval(text))


def lit(value, text="f32[]"):
    return Literal(value, Aval(text))


def eqn(name, ins, outs, /, **params):
    return JaxprEqn(ins, outs, SimpleNamespace(name=name), params)


def show(thing, **settings):
    return jaxpr_to_text(thing, use_color=False, **settings)


def program(ins, outs, *eqns, consts=(), name="f"):
    return Jaxpr(consts, ins, outs, eqns, debug_info=SimpleNamespace(func_name=name))


def unary(name="sin"):
    a, b = var(), var()
    return program([a], [b], eqn(name, [a], [b]))


def jit(closed, ins, outs, name="f", **more):
    params = {
        "jaxpr": closed,
        "in_shardings": (None,),
        "out_shardings": (None,),
        "in_layouts": (None,),
        "out_layouts": (None,),
        "donated_invars": (False,),
        "ctx_mesh": None,
        "name": name,
        "keep_unused": False,
        "inline": False,
        "compiler_options_kvs": (),
    }
    return eqn("jit", ins, outs, **(params | more))


def expect(thing, text, **settings):
    assert show(thing, **settings) == textwrap.dedent(text).strip("\n")


def test_small_programs_stay_on_a_line():
    expect(unary(), "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    expect(ClosedJaxpr(unary()), "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    expect(unary(), "{ lambda ; a. let b = sin a in (b,) }", print_shapes=False)
    expect(program([], []), "{ lambda ; . let  in () }")
    assert str(ClosedJaxpr(unary())) == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"


def test_constants_literals_and_results_nobody_reads():
    k, a, b, c, d = var("f32[3]"), var(), var(), DropVar(SCALAR), var()
    expect(
        program(
            [a],
            [a, lit(1.0)],
            eqn("add", [a, lit(np.float32(2))], [b]),
            eqn("pair", [k], [c, d]),
            consts=[k],
        ),
        """
        { lambda a:f32[3]; b:f32[]. let
            _:f32[] = add b 2.0:f32[]
            _:f32[] _:f32[] = pair a
          in (b, 1.0:f32[]) }
        """,
    )


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (True, "bool", "True:bool[]"),
        (3, "int8", "3:i8[]"),
        (1 + 2j, "complex64", "(1+2j):c64[]"),
        (np.inf, "float32", "inf:f32[]"),
        (-0.0, "float32", "-0.0:f32[]"),
        (0.1, "float32", "0.10000000149011612:f32[]"),
    ],
)
def test_literals(value, dtype, text):
    value = np.asarray(value, dtype)
    shown = show(eqn("f", [lit(value, text.split(":")[1])], []))
    assert shown == f"f {text}"


def test_arrays_as_literals_are_not_spelt_out():
    assert show(eqn("f", [lit(np.ones(3), "f32[3]")], [])) == "f [...]:f32[3]"


def test_names_of_variables():
    assert [letters(i) for i in (0, 25, 26, 52, 675, 676)] == ["a", "z", "ba", "ca", "zz", "baa"]
    many = [var() for _ in range(30)]
    text = show(program(many, many[-3:]))
    assert text.endswith("in (bb, bc, bd) }")


def test_long_lists_are_filled_not_stacked():
    many = [var("f32[3]") for _ in range(10)]
    text = show(program(many, many))
    assert text.splitlines() == [
        "{ lambda ; a:f32[3] b:f32[3] c:f32[3] d:f32[3] e:f32[3] f:f32[3] g:f32[3] h:f32[3]",
        "    i:f32[3] j:f32[3]. let",
        "    ",
        "  in (a, b, c, d, e, f, g, h, i, j) }",
    ]


def test_ordinary_parameters_of_jit_go_unsaid():
    a, b, inner = var(), var(), ClosedJaxpr(unary())
    expect(
        program([a], [b], jit(inner, [a], [b])),
        """
        { lambda ; a:f32[]. let
            b:f32[] = jit[
              name=f
              jaxpr={ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
            ] a
          in (b,) }
        """,
    )
    text = show(program([a], [b], jit(inner, [a], [b], donated_invars=(True,), keep_unused=True)))
    assert "name=f\n      donated_invars=(True,)\n      jaxpr=" in text
    assert "keep_unused=True\n    ] a" in text
    assert "inline=False" in show(
        program([a], [b], jit(inner, [a], [b])), custom_pp_eqn_rules=False
    )


def test_programs_used_twice_come_first():
    inner = ClosedJaxpr(unary())
    a, b, c = var(), var(), var()
    expect(
        program([a], [c], jit(inner, [a], [b], "<lambda>"), jit(inner, [b], [c], "<lambda>")),
        """
        let lambda = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in
        { lambda ; c:f32[]. let
            d:f32[] = jit[name=<lambda> jaxpr=lambda] c
            e:f32[] = jit[name=<lambda> jaxpr=lambda] d
          in (e,) }
        """,
    )


def test_shared_names_are_unique_and_no_variable_has_them():
    one, two = ClosedJaxpr(unary()), ClosedJaxpr(unary("cos"))
    a, b, c, d, e = (var() for _ in range(5))
    expect(
        program(
            [a],
            [e],
            jit(one, [a], [b], "a"),
            jit(one, [b], [c], "a"),
            jit(two, [c], [d], "a"),
            jit(two, [d], [e], "a"),
        ),
        """
        let a = { lambda ; b:f32[]. let c:f32[] = sin b in (c,) } in
        let a1 = { lambda ; d:f32[]. let e:f32[] = cos d in (e,) } in
        { lambda ; f:f32[]. let
            g:f32[] = jit[name=a jaxpr=a] f
            h:f32[] = jit[name=a jaxpr=a] g
            i:f32[] = jit[name=a jaxpr=a1] h
            j:f32[] = jit[name=a jaxpr=a1] i
          in (j,) }
        """,
    )


def test_long_inner_programs_come_first_too():
    vs = [var() for _ in range(12)]
    inner = program(vs[:1], vs[-1:], *[eqn("sin", [x], [y]) for x, y in pairwise(vs)])
    a, b = var(), var()
    text = show(program([a], [b], jit(ClosedJaxpr(inner), [a], [b])))
    assert text.startswith("let f = { lambda ; a:f32[]. let\n    b:f32[] = sin a\n")
    assert "jit[name=f jaxpr=f] n" in text


def test_sharing_below_sharing_is_found_in_linear_time():
    inner = ClosedJaxpr(unary())
    for _ in range(40):
        a, b, c = var(), var(), var()
        inner = ClosedJaxpr(program([a], [c], jit(inner, [a], [b]), jit(inner, [b], [c])))
    assert show(inner).count("let f") == 40


def test_branches():
    i, a, b = var("i32[]"), var(), var()
    branches = (ClosedJaxpr(unary()), ClosedJaxpr(unary("neg")))
    expect(
        program([i, a], [b], eqn("cond", [i, a], [b], branches=branches)),
        """
        { lambda ; a:i32[] b:f32[]. let
            c:f32[] = cond[
              branches=(
                { lambda ; d:f32[]. let e:f32[] = sin d in (e,) }
                { lambda ; f:f32[]. let g:f32[] = neg f in (g,) }
              )
            ] a b
          in (c,) }
        """,
    )


def test_functions_of_custom_rules_are_named():
    a, b = var(), var()
    rule = SimpleNamespace(debug_info=SimpleNamespace(func_name="f_jvp"))
    call = eqn(
        "custom_jvp_call",
        [a],
        [b],
        call_jaxpr=ClosedJaxpr(unary()),
        jvp_jaxpr_fun=rule,
        num_consts=0,
        symbolic_zeros=False,
    )
    expect(
        program([a], [b], call),
        """
        { lambda ; a:f32[]. let
            b:f32[] = custom_jvp_call[
              name=f
              call_jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }
              jvp=f_jvp
              symbolic_zeros=False
            ] a
          in (b,) }
        """,
    )


def test_parameters_implied_by_the_types_go_unsaid():
    a, b = var("f32[3,4]"), var("f32[4,3]")
    dot = eqn(
        "dot_general",
        [a, b],
        [var("f32[3,3]")],
        dimension_numbers=(((1,), (0,)), ((), ())),
        precision=None,
        preferred_element_type="float32",
        out_sharding=None,
    )
    expect(
        dot,
        """
        a:f32[3,3] = dot_general[
          dimension_numbers=(([1], [0]), ([], []))
          preferred_element_type=float32
        ] b c
        """,
    )
    spread = {"shape": (3,), "broadcast_dimensions": (), "sharding": None}
    assert show(eqn("broadcast_in_dim", [lit(0.0)], [var("f32[3]")], **spread)) == (
        "a:f32[3] = broadcast_in_dim 0.0:f32[]"
    )
    assert show(eqn("sin", [a], [b], accuracy=None)) == "a:f32[4,3] = sin b"
    assert show(eqn("mul", [a, a], [b], out_dtype=None)) == "a:f32[4,3] = mul b b"


def test_values_of_parameters():
    a = var()
    assert show(eqn("f", [a], [], axes=frozenset({2, 1}))) == "f[axes=frozenset({1, 2})] a"
    assert show(eqn("f", [a], [], g="<x at 0x7f00>")) == "f[g=<x at 0xXXXX>] a"
    assert show(eqn("f", [a], [], z=1, b="s", k=())) == "f[b=s k=() z=1] a"


def test_primitives_may_say_how_they_are_shown():
    def whole(eqn, context, settings):
        return pp_eqn(JaxprEqn([], [], SimpleNamespace(name="mine"), {}), context, settings)

    chosen = SimpleNamespace(name="p", pp_params=lambda params: {"z": 1, "a": 2})
    assert show(JaxprEqn([], [], chosen, {})).strip() == "p[z=1 a=2]"
    custom = SimpleNamespace(name="p", pp_eqn=whole)
    assert pp_eqn(JaxprEqn([], [], custom, {}), Context(), Settings()).format() == "mine "


def test_lines_and_scopes_behind():
    a, b = var(), var()
    info = source.current(name_stack=source.NameStack(["block", "layer"]))
    step = JaxprEqn([a], [b], SimpleNamespace(name="sin"), {}, source_info=info)
    text = show(program([a], [b], step), source_info=True)
    where = "test_printing.py:"
    assert f"{{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }} # {where}" in text
    assert show(program([a], [b], step), name_stack=True).endswith("# [block/layer]")


def test_effects_on_request():
    a = var()
    jaxpr = program([a], [a])
    assert show(jaxpr, print_effects=True) == "{ lambda ; a:f32[]. let  in (a,) : {  } }"
