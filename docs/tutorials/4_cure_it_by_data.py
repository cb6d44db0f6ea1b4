# %% [markdown]
# # Cure it by data
#
# ![Error landscapes of two networks and their outputs for six pairs. The network trained on bumps alone draws
# next to nothing for the held-out pairs; the one that also saw stripes draws bumps where they belong.](images/4_cure_it_by_data-comparison.png)
#
# The second remedy of [the paper](../paper.md) leaves the network as it is and changes what it sees: *single-factor images*
# are added to the training data. For the bump these are stripes. A vertical stripe shows a value of x alone, a horizontal
# stripe a value of y alone. Neither shows a combination, and yet they cure the failure on combinations.

# %%
import recombine as rc

space = rc.FactorSpace(x=14, y=14)
task = rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 3, 11))

# %% [markdown]
# ## What a stripe is
#
# A bump is the product of two stripes: $G(u, v) = g(u - x)\, g(v - y)$. In a single-factor scene one factor is *absent*, its
# block of the code is zero, and its stripe is replaced by 1.

# %% figure="stripes" alt="Three images: a vertical stripe for x = 4, a horizontal stripe for y = 9, and the bump at their crossing."
import torch

from recombine.plotting import new_figure, show_output

values = torch.tensor([[4.0, 9.0]] * 3)
present = torch.tensor([[True, False], [False, True], [True, True]])
pictures = task.scene(values, present).numpy()
figure = new_figure(5.4, 2.1)
for ax, picture, label in zip(figure.subplots(1, 3), pictures, ("x = 4 alone", "y = 9 alone", "x = 4 and y = 9")):
    show_output(ax, picture, label)
figure

# %% [markdown]
# ## Training with stripes
#
# What a run is trained on is a list of *example sources*. `single_factor` adds all 28 stripes; the cells of the grid stay.
# Everything else is the same for both networks.

# %%
recipes = {
    "bumps": rc.recipe("recommended", epochs=40),
    "bumps and stripes": rc.recipe("recommended", epochs=40, examples={"single_factor": {}}),
}
runs = {}
for name, recipe in recipes.items():
    runs[name] = rc.train(rc.decoders.CNN(task, depth=4, width=16), task, seed=0, training=recipe)
    found = runs[name].scores.summary()
    print(
        f"{name:18} OOD error {found['ood', 'mse'].mean:.1e}, OOD localization {found['ood', 'localization'].mean:.2f}"
    )

# %% tags=["remove-cell"]
bumps, both = (run.scores.summary() for run in runs.values())
assert both["ood", "localization"].mean > bumps["ood", "localization"].mean + 0.15
assert both["ood", "mse"].mean < bumps["ood", "mse"].mean / 3

# %% figure="comparison" alt="Error landscapes of two networks and their outputs for six pairs. The network trained on bumps alone draws next to nothing for the held-out pairs; the one that also saw stripes draws bumps where they belong."
from recombine.plotting import comparison
from recombine.scoring.outputs import render

pairs = torch.tensor([[1.0, 12.0], [12.0, 6.0], [5.0, 6.0], [7.0, 7.0], [9.0, 5.0], [6.0, 10.0]])
cells = space.cells(pairs)
outputs = {name: render(run.model, task, cells)[1] for name, run in runs.items()}
errors = {name: run.scores.columns["mse"] for name, run in runs.items()}
truth = task.targets(pairs).numpy()
comparison(task, errors, outputs, truth, cells.tolist(), {name: f"trained on {name}" for name in runs})

# %% [markdown]
# ## Why it works
#
# Without stripes the network is free to store an image for every trained pair. For an unseen pair it then has nothing to
# offer but faint mixtures of stored images. A stripe forces it to represent a single factor *in pixel space*. What the later layers have to learn is then only
# how two stripes combine, and that rule is the same for trained and held-out pairs.
#
# How many bumps are needed to learn the rule? Few. `examples={"cells": {"count": 20}, "single_factor": {}}` trains on all
# stripes and 20 bumps drawn at random from the ID pairs:

# %%
few = rc.recipe("recommended", epochs=120, examples={"cells": {"count": 20}, "single_factor": {}})
few_run = rc.train(rc.decoders.CNN(task, depth=4, width=16), task, seed=0, training=few)
found = few_run.scores.summary()
print(f"20 bumps and stripes: OOD localization {found['ood', 'localization'].mean:.2f}")

# %% tags=["remove-cell"]
assert found["ood", "localization"].mean > bumps["ood", "localization"].mean

# %% [markdown]
# On the command line the same setting is `training.examples.single_factor={}`; see
# [Forced rendering](../forced-rendering.md).
#
# ## Exercise
#
# Train on stripes alone, with no bump at all: `examples={"single_factor": {}, "cells": {"count": 0}}`. What does the network
# draw for a pair (x, y)? Compare its output with the *sum* of the two stripes and with their *product*. Which one would you
# expect, given that no training image ever showed the product?
