# %% [markdown]
# # Factors that act on each other
#
# ![Five unseen combinations of shape, place and hue. The CNN draws wrong shapes in the right places. The composed
# decoder draws every combination correctly.](images/7_factors_that_act-samples.png)
#
# In the first tutorials, both factors were coordinates, and a bump is the product of two images. Most factors are
# different. A position *moves* a shape, and a hue *tints* it. The composed decoder assigns operators to every factor
# value, a convolution kernel and a gain per colour channel, and learns what each factor does.

# %%
import numpy as np

import recombine as rc
from recombine.core.errors import InputError

shapes = ["circle", "square", "triangle", "cross"]
space = rc.FactorSpace(shape=shapes, x=[4, 6, 8, 10, 12, 14, 16, 18], hue=[0.0, 0.2, 0.4, 0.6])
shape, x, hue = np.indices(space.shape)
held_out = rc.holdouts.mask(space, (shape >= 2) & (x >= 4))  # triangles and crosses were never seen on the right
task = rc.Task(rc.scenes.Shapes(space, rows=14, columns=24, diameter=7), rc.encodings.OneHot(space), held_out)
print(task.holdout)

# %% [markdown]
# Every shape, place and hue occurs in training, but triangles and crosses never occur on the right half. We train a CNN
# and the composed decoder on the same images:

# %%
models = {
    "CNN": (rc.decoders.CNN(task, depth=3, width=16), rc.recipe("recommended", steps=1000, batch=32)),
    "composed": (rc.decoders.Composed(task), rc.recipe("composed")),
}
runs = {name: rc.train(model, task, seed=0, training=recipe) for name, (model, recipe) in models.items()}
for name, run in runs.items():
    found = run.scores.summary()
    print(f"{name:9} ID error {found['id', 'mse'].mean:.1e}, OOD error {found['ood', 'mse'].mean:.1e}")

# %% tags=["remove-cell"]
errors = {name: run.scores.summary()["ood", "mse"].mean for name, run in runs.items()}
assert errors["composed"] < 1e-5 < 1e-3 < errors["CNN"]

# %% [markdown]
# Both networks fit the trained images. On unseen combinations, the error of the CNN is larger by orders of magnitude:

# %% figure="samples" alt="Five unseen combinations of shape, place and hue. The CNN draws wrong shapes in the right places. The composed decoder draws every combination correctly."
from recombine.plotting import new_figure
from recombine.plotting.images import show_output

cells = task.holdout.ood_cells[[0, 9, 14, 21, 31]]
values = task.space.values(cells)
rows = {"truth": task.targets(values)}
rows |= {name: run.model(task.inputs(values)).detach() for name, run in runs.items()}
figure = new_figure(9, 4)
for ax, (name, image) in zip(
    figure.subplots(3, 5).flat, [(name, image) for name, images in rows.items() for image in images]
):
    show_output(ax, image.numpy(), name)
figure

# %% [markdown]
# ## What each factor does
#
# `roles()` compares the images for different values of a factor and reports whether shifts, gains or new shapes explain
# the changes:

# %%
print(runs["composed"].model.roles(space.names))

# %% tags=["remove-cell"]
roles = runs["composed"].model.roles(space.names)
assert [roles.of(name).does.value for name in space.names] == ["draws", "moves", "tints"]

# %% [markdown]
# The decoder is not given these roles in advance. A penalty removes the groups of operators that a factor does not
# need: the hue loses its kernels, and x loses its gains. The recipe then *settles*. It replaces nearly exact shifts and
# gains by exact ones, fits the shapes again, and keeps the result only if it fits the *trained* images at least as
# well.
#
# ## When it cannot work
#
# Suppose that triangles and crosses occur only on the right, and circles and squares only on the left. The data then do
# not determine the position of a triangle relative to a circle. The decoder rejects such a task and names the values:

# %%
apart = rc.holdouts.mask(space, (shape >= 2) == (x < 4))
try:
    rc.decoders.Composed(rc.Task(task.scene, task.encoding, apart))
except InputError as error:
    print(error)

# %% [markdown]
# ## In your own loop
#
# `FactorComposer` is an ordinary module that takes value indices or codes. Add the penalty to your loss and call
# `settle` after training:

# %%
import torch

from recombine.models.decoders import FactorComposer
from recombine.training.loss_terms import Composition
from recombine.training.settle import settle

seen = task.holdout.id_cells
indices, images = space.coordinates(seen), task.targets(space.values(seen))
model, penalty = FactorComposer(space.shape, image_shape=(3, 14, 24), images=images), Composition()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(400):
    batch = torch.randint(len(images), (32,))
    loss = (model(indices[batch]) - images[batch]).square().mean() + penalty(model)
    optimizer.zero_grad(), loss.backward(), optimizer.step()
print(settle(model, indices, images))

# %% [markdown]
# [Composing by operators](../composing.md) explains why this works, states the conditions, and shows the cases in which
# it fails.
#
# ## Exercise
#
# Add a factor `size=[5, 7, 9]` and hold out large triangles. A change of size is neither a shift nor a gain. What does
# `roles()` report, and what happens to the OOD error?
