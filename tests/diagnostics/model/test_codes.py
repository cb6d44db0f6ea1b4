"""Codes of any structure, outputs of any structure, and models that are hard to run."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, Missing
from recombine.diagnostics.model.codes import structure_of

SPACE = rc.FactorSpace(x=5, y=4)
CODE = rc.encodings.Bump(SPACE)
SCENE = rc.scenes.Bump(SPACE)
HOLE = rc.holdouts.centre(SPACE, 2, 2)
NOISE = torch.linspace(-1, 1, 3)


@dataclass
class Output:
    sample: torch.Tensor
    loss: float = 0.0


class Generator(nn.Module):
    """A two-argument model, and the same network as one of the code alone."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 20))

    def forward(self, noise, condition):
        return self.net(torch.cat([noise, condition], -1))


class OfCode(nn.Module):
    def __init__(self, generator):
        super().__init__()
        self.net = generator.net

    def forward(self, condition):
        return self.net(torch.cat([NOISE.to(condition).expand(len(condition), -1), condition], -1))


def diagnosed(model, encode=CODE, **given):
    given = {"target": SCENE, "parts": ["errors", "geometry"], "progress": False, **given}
    return rc.diagnose(model, SPACE, encode, HOLE, **given)


@pytest.fixture(scope="module")
def plain():
    return diagnosed(OfCode(Generator()))


ENCODES = {
    "tuple": lambda values: (NOISE.expand(len(values), -1), CODE(values)),
    "list": lambda values: [NOISE.expand(len(values), -1), CODE(values)],
    "dict": lambda values: {"condition": CODE(values), "noise": NOISE.expand(len(values), -1)},
    "noise that is not expanded": lambda values: (NOISE.repeat(len(values), 1), CODE(values)),
}


@pytest.mark.parametrize("encode", ENCODES.values(), ids=ENCODES)
def test_a_code_of_any_structure_gives_what_the_plain_model_gives(encode, plain):
    found = diagnosed(Generator(), encode)
    assert found.layers == plain.layers == ("in", "net.1", "out")
    for part in ("errors", "geometry"):
        assert found[part].computed, found[part].missing
        for name, array in plain[part].arrays.items():
            if not name.endswith("/in"):
                torch.testing.assert_close(found[part].arrays[name], array, rtol=1e-4, atol=1e-6, equal_nan=True)


def test_structures_are_put_together_again():
    code = {"a": (torch.arange(6.0).reshape(3, 2), torch.arange(3)), "b": torch.ones(2, 2).expand(3, 2, 2)}
    found = structure_of(code, 3)
    flat = found.flat(code)
    assert flat.shape == (3, 3)
    again = found.code(flat)
    assert torch.equal(again["a"][0], code["a"][0])
    assert torch.equal(again["a"][1], code["a"][1])
    assert again["a"][1].dtype == torch.int64
    assert torch.equal(again["b"], code["b"])
    assert found.integers == torch.int64
    assert structure_of((torch.ones(2).expand(3, 2), torch.arange(3.0)), 3).integers is None


def test_labels_by_name_are_whole_numbers_without_derivatives():
    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.x, self.y, self.act, self.out = nn.Embedding(5, 3), nn.Embedding(4, 3), nn.Tanh(), nn.Linear(3, 20)

        def forward(self, labels):
            return self.out(self.act(self.x(labels[:, 0]) + self.y(labels[:, 1])))

    found = diagnosed(Embedded(), "labels", geometry="finite difference")
    assert found["geometry"].computed
    assert found.layers == ("in", "act", "out")
    exact = diagnosed(Embedded(), "labels", parts=["geometry"])
    assert exact["geometry"].state is Missing.NOT_DIFFERENTIABLE


@pytest.mark.parametrize("mixed", [False, True])
def test_integers_beside_other_inputs_have_no_derivative_either(mixed):
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table, self.out = nn.Embedding(5, 3), nn.Linear(4, 20)

        def forward(self, label, y):
            return self.out(torch.cat([self.table(label), y], -1))

    found = diagnosed(Mixed(), lambda values: (values[:, 0].long(), values[:, 1:]), parts=["geometry"])
    assert found["geometry"].state is Missing.NOT_DIFFERENTIABLE


def test_an_encoding_by_its_kind():
    model = OfCode(Generator())
    by_name, by_object = diagnosed(model, "bump", parts=["errors"]), diagnosed(model, parts=["errors"])
    assert by_name["errors"].rows == by_object["errors"].rows
    with pytest.raises(InputError, match="labels, values, bump"):
        diagnosed(model, "bmup")


@pytest.mark.parametrize(
    ("wrap", "key"),
    [(Output, "sample"), (lambda t: {"sample": t}, "sample"), (lambda t: (0, t), 1)],
)
def test_a_part_of_the_output_is_diagnosed_with_all_layers(wrap, key, plain):
    class Wrapped(OfCode):
        def forward(self, condition):
            return wrap(super().forward(condition))

    found = diagnosed(Wrapped(Generator()), output=key)
    assert found.layers == plain.layers
    assert found["errors"].rows == plain["errors"].rows
    with pytest.raises(InputError, match=f"output={key!r}"):
        diagnosed(Wrapped(Generator()))


@pytest.mark.parametrize(
    ("encode", "told"),
    [
        (lambda values: (CODE(values), 3), "at 1"),
        (lambda values: {"a": CODE(values)[:1]}, "at a"),
        (lambda values: torch.ones(3).expand(len(values), 3), "the same"),
        (lambda values: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_codes_that_cannot_be_used(encode, told):
    with pytest.raises(InputError, match=told):
        diagnosed(Generator(), encode)


# --- functions around modules -----------------------------------------------------------------------------------


class Returning(OfCode):
    def forward(self, condition):
        return Output(super().forward(condition))


GENERATOR, RETURNING = Generator(), Returning(Generator())
WRAPPED = {
    "itself": (lambda code: RETURNING.net(torch.cat([code, code[:, :3]], -1)), "adapt(module, inputs=lambda code: …)"),
    "attribute": (lambda code: RETURNING(code).sample, "output='sample'"),
    "keyword": (lambda code: RETURNING(condition=code).sample, "{'condition': code}"),
    "two arguments": (lambda code: GENERATOR(NOISE.expand(len(code), -1), code), "(…, code)"),
    "changed afterwards": (lambda code: GENERATOR(NOISE.expand(len(code), -1), code).sigmoid(), "nn.Module"),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_function_around_a_module_says_how_to_keep_its_layers(name):
    model, told = WRAPPED[name]
    found = diagnosed(model, parts=["errors"])
    assert found.layers == ("in", "out")
    [note] = [note for note in found.notes if "hides the layers" in note]
    assert told in note


def test_a_function_without_a_module_has_no_such_note():
    assert not [n for n in diagnosed(lambda code: code @ torch.ones(9, 20), parts=["errors"]).notes if "hides" in n]


# --- models that are hard to run --------------------------------------------------------------------------------


class Refusing(OfCode):
    """Takes a few codes at once only."""

    most, truncating = 6, False

    def forward(self, condition):
        if self.truncating:
            return super().forward(condition)[: self.most]
        if len(condition) > self.most:
            raise RuntimeError(f"batches of at most {self.most}")
        return super().forward(condition)


@pytest.mark.parametrize("truncating", [False, True])
def test_a_model_that_refuses_large_batches_is_given_small_ones(truncating):
    model = Refusing(Generator())
    model.truncating = truncating
    parts = ["errors", "superposition", "geometry", "probes"]
    found, plain = diagnosed(model, parts=parts), diagnosed(OfCode(Generator()), parts=parts)
    for part in parts:
        assert found[part].computed
        assert list(found[part].missing) == list(plain[part].missing)
    assert found["errors"].rows[0]["mse"] == pytest.approx(plain["errors"].rows[0]["mse"])
    assert any("at most 5 codes" in note for note in found.notes), found.notes
    assert not plain.notes


@pytest.mark.parametrize("way", ["in place", "data", "another tensor", "an exception"])
def test_a_model_that_changes_its_own_weights_is_refused_and_left_as_it_was(way):
    class Changing(OfCode):
        calls = 0

        def forward(self, condition):
            weight = self.net[0].weight
            if way == "another tensor":
                weight.data = weight.data + 0.1
            elif way == "data":
                weight.data.add_(0.1)
            else:
                with torch.no_grad():
                    weight.add_(0.1)
            if way == "an exception" and len(condition) > 3:
                raise RuntimeError("enough")
            return super().forward(condition)

    model = Changing(Generator())
    before = {name: p.clone() for name, p in model.state_dict().items()}
    with pytest.raises(InputError, match="weight"):
        diagnosed(model, parts=["errors"])
    for name, p in model.state_dict().items():
        assert torch.equal(p, before[name]), name


def test_a_model_that_switches_to_train_mode_is_noted_and_put_back():
    class Switching(OfCode):
        def __init__(self, generator):
            super().__init__(generator)
            self.dropout = nn.Dropout(0.5)

        def forward(self, condition):
            self.dropout.train()
            return self.dropout(super().forward(condition))

    model = Switching(Generator()).eval()
    found = diagnosed(model, parts=["errors"])
    assert any("train mode" in note for note in found.notes)
    assert not model.dropout.training
