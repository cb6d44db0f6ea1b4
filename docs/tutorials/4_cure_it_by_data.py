# %% [markdown]
# # Cure it by data
#
# ![Error landscapes of two networks and their outputs for six pairs. The network trained on bumps alone draws almost
# nothing for the held-out pairs. The network trained on stripes as well draws the bumps in the right
# place.](images/4_cure_it_by_data-comparison.png)
#
# The second remedy of [the paper](../paper.md) keeps the network and adds *single-factor images* to the training data.
# For the bump, these images are stripes. A vertical stripe shows only a value of x, a horizontal stripe only a value of
# y. No stripe shows a combination, yet training on stripes fixes the failure on combinations.

# %%
import recombine as rc

space = rc.FactorSpace(x=14, y=14)
task = rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 3, 11))

# %% [markdown]
# ## What a stripe is
#
# A bump is the product of two stripes: $G(u, v) = g(u - x)\, g(v - y)$. In a single-factor scene, one factor is
# *absent*. Its block of the code is zero, and its stripe is replaced by 1.

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
# A recipe lists the *example sources* of a run. `single_factor` adds all 28 stripes to the trained cells of the grid.
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

# %% figure="comparison" alt="Error landscapes of two networks and their outputs for six pairs. The network trained on bumps alone draws almost nothing for the held-out pairs. The network trained on stripes as well draws the bumps in the right place."
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
# Without stripes, the network can store one image per trained pair. For an unseen pair, it then produces faint mixtures
# of the stored images. The stripes force it to represent each factor *in pixel space*. The later layers then only have
# to learn how two stripes combine, and this rule is the same for trained and held-out pairs.
#
# A few bumps are enough to learn this rule. `examples={"cells": {"count": 20}, "single_factor": {}}` trains on all
# stripes and 20 bumps drawn at random from the ID pairs:

# %%
few = rc.recipe("recommended", epochs=120, examples={"cells": {"count": 20}, "single_factor": {}})
few_run = rc.train(rc.decoders.CNN(task, depth=4, width=16), task, seed=0, training=few)
found = few_run.scores.summary()
print(f"20 bumps and stripes: OOD localization {found['ood', 'localization'].mean:.2f}")

# %% tags=["remove-cell"]
assert found["ood", "localization"].mean > bumps["ood", "localization"].mean

# %% [markdown]
# On the command line, the same setting is `training.examples.single_factor={}`. See [Forced
# rendering](../forced-rendering.md).
#
# ## Exercise
#
# Train on stripes alone, without any bumps: `examples={"single_factor": {}, "cells": {"count": 0}}`. What does the
# network draw for a pair (x, y)? Compare its output with the *sum* of the two stripes and with their *product*. Which
# one do you expect, given that no training image shows the product?
