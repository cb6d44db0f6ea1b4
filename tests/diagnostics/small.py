"""A small task and a network for it, which several tests of the diagnosis share."""

import torch
from torch import nn

import recombine as rc
from recombine.diagnostics.part import chosen_parts

PARTS = tuple(part.name for part in chosen_parts(rc.DiagnosisRequest()))  # all but `draws`, which wants several
SPACE = rc.FactorSpace(x=8, y=8)
HOLE = rc.holdouts.centre(SPACE, 3, 5)
SCENE = rc.scenes.Bump(SPACE)
CODE = rc.encodings.Bump(SPACE)
TASK = rc.Task(SCENE, CODE, HOLE)


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 80), nn.ReLU(), nn.Linear(80, 20), nn.Tanh(), nn.Linear(20, 64))


def outputs_of(model):
    with torch.no_grad():
        return model(CODE(SPACE.values(torch.arange(64))))
