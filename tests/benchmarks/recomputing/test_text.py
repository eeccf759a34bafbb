import pytest
from recomputing.statistics import Effect
from recomputing.text import Factor, Factors, Given, Kinds, Naming, Parts, Quantity, rounds_to, sentences, topics


def wrong(expected, text):
    return [(held.printed, held.recomputed) for held in expected.hold(text) if not held.agrees]


def effect(factor, *ends):
    return Effect(factor, 9, lambda confidence: ends or None)


@pytest.mark.parametrize(
    ("value", "printed", "agrees"),
    [
        (1979.2, "1980", True), (1979.2, "1970", False), (0.04567, "0.0457", True), (0.04567, "0.0456", False),
        (127.3, "130", True), (127.3, "100", False), (2.5, "3", True), (1.999, "2.00", True), (24.0, "24", True),
        (12345.0, "12,300", True), (24.0, "20", False),
    ],
)  # fmt: skip
def test_a_number_is_rounded_as_it_is_printed(value, printed, agrees):
    assert rounds_to(value, printed) == agrees


def test_a_quantity_is_compared_with_its_prefix_and_unit():
    assert not wrong(Quantity(55.71e9, "B/s"), "55.7 GB/s")
    assert wrong(Quantity(55.71e9, "B/s"), "55.7 MB/s") == [("55.7 MB/s", "55710 MB/s")]
    assert wrong(Quantity(55.71e9, "B/s"), "55.7 GFLOP/s")
    assert not wrong(Quantity(0.382, "%"), "38 %")
    assert not wrong(Quantity(-0.0213, "%"), "-2.1 %")


def test_a_factor_has_the_interval_that_is_recomputed():
    assert not wrong(Factor(effect(3.14, 1.96, 6.61), 0.95), "3.1 (2.0 to 6.6)")
    assert wrong(Factor(effect(3.14, 1.96, 6.61), 0.95), "3.1 (2.1 to 6.6)") == [("2.1", "1.96")]
    assert not wrong(Factor(effect(3.14), 0.95), "3.1")
    assert wrong(Factor(effect(3.14), 0.95), "3.1 (2.0 to 6.6)")


def test_factors_are_told_at_all_batch_sizes():
    effects = {1: effect(3.1, 2.0, 6.6), 8: effect(1.5, 1.2, 1.9), 64: effect(4.0)}
    full = "3.1 (2.0 to 6.6) at batch size 1, 1.5 (1.2 to 1.9) at 8 and 4.0 at 64"
    assert not wrong(Factors(effects, 0.95), full)
    assert wrong(Factors(effects, 0.95), "3.1 (2.0 to 6.6) at batch size 1 and 4.0 at 64")
    assert wrong(Factors(effects, 0.95), full.replace("at 8", "at 16")) == [("16", "8")]


def test_advice_has_to_name_what_follows_from_the_effects():
    assert not wrong(Naming([64], ["kept_memory"]), "run inference with kept_memory at batch size 64")
    assert wrong(Naming([8, 64]), "run inference with kept_memory at batch size 64")
    assert wrong(Naming([], ["jemalloc"]), "run inference with kept_memory")


KINDS = Kinds()


@KINDS.of("[On the <machine>, ]<count> of <models> {is|are} faster[, by <gain>].")
def faster(said):
    return {"machine": "NVIDIA T4", "count": 2, "models": "5 models", "gain": 1.26}


@KINDS.of("Of 3 rounds <count> took <time>.")
def took(said):
    return {"count": 2, "time": Quantity(0.0251, "s")}


def test_a_sentence_agrees_in_all_numbers():
    assert not wrong(KINDS, "On the NVIDIA T4, 2 of 5 models are faster, by 1.3.")
    assert not wrong(KINDS, "2 of 5 models are faster.")


def test_a_wrong_number_in_a_sentence_is_found():
    assert wrong(KINDS, "2 of 5 models are faster, by 1.4.") == [("1.4", "1.26")]
    assert wrong(KINDS, "On the NVIDIA T40, 2 of 5 models are faster.") == [("NVIDIA T40", "NVIDIA T4")]


def test_a_sentence_without_a_template_is_not_recomputed():
    assert wrong(KINDS, "Half of 5 models are slower.") == [("Half of 5 models are slower.", "")]


def test_a_number_that_nothing_names_is_not_recomputed():
    assert wrong(KINDS, "Of 3 rounds 2 took 25 ms.") == [("3", "")]


def test_clauses_are_compared_one_by_one():
    clauses = Kinds()

    @clauses.of("<name> <factor>")
    def clause(said):
        return {"factor": {"Peak": 1.0, "Fusion": 1.5}.get(said["name"], Given("unknown"))}

    assert wrong(Parts(clauses), "Peak 1.0; Fusion 1.6; Device 3") == [("1.6", "1.5")]


HTML = """<nav>7 links</nav>
<section id="abstract"><h1>1 Abstract</h1><p>We count 24 models
of 7&nbsp;families. No digit here. Its roof is 2&nbsp;GB/s.</p></section>
<section id="findings"><h1>What we found</h1><figure><figcaption>Figure 1: 3 dots.</figcaption></figure>
<p>These are 2.</p><ol><li><p><strong>Peak.</strong> It is 4. See <a class="cross-reference">Figure 2</a>.</p></li></ol>
</section>
<section id="sec-other"><p>Left out: 3.</p></section>
<section id="sec-conclusions"><h1>10 Conclusions</h1>
<p>As others do <span class="citation">(<a>One 2003</a>)</span>.</p>
<section id="sec-effects"><h2>10.1 Effects</h2>
<ol><li><p><strong>Precision.</strong> It’s −1.5 on fp32. See <a class="cross-reference">Figure 7</a>.</p></li>
<li><p><strong>Peak.</strong> None.</p></li></ol></section><p>At last 5 things.</p></section>"""


def test_the_sentences_with_digits_are_those_of_the_first_page_and_the_conclusions():
    assert sentences(HTML) == [
        ("Abstract", "We count 24 models of 7 families."),
        ("Abstract", "No digit here. Its roof is 2 GB/s."),
        ("First page", "These are 2."),
        ("First page", "It is 4."),
        ("Conclusions", "It's -1.5 on fp32."),
        ("Conclusions", "At last 5 things."),
    ]


def test_the_topics_are_those_of_numbered_lists():
    assert topics(HTML) == [["Peak"], ["Precision", "Peak"]]
