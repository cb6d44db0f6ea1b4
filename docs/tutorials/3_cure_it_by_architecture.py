# %% [markdown]
# # Cure it by architecture
#
# ![Seven learned images of x and seven of y. Those of x are vertical bands, those of y horizontal bands.](images/3_cure_it_by_architecture-maps.png)
#
# The first remedy of [the paper](../paper.md) changes the network. Every value of every factor owns an image,
# $W = \sum_n \lambda_n v_n u_n^\top$, and only these images reach a small convolutional head. The factors are therefore
# *rendered separately* in pixel space before anything can mix them. A penalty favours smooth images, and the images turn
# into bands: the x-images show where x is, the y-images where y is.

# %%
import recombine as rc

space = rc.FactorSpace(x=14, y=14)
task = rc.Task(rc.scenes.Bump(space, sigma=1.5), rc.encodings.OneHot(space), rc.holdouts.corner(space, 7))
print(task.holdout)

# %% [markdown]
# ## Without and with the penalty
#
# `FactorRendered` is a renderer followed by the head. The recipe `low_rank_recommended` contains the *variance penalty*,
# which is small for smooth bands. We train once without any penalty and once with it:


# %%
def decoder():
    return rc.decoders.FactorRendered(task, width=4, activation="gelu", padding="replicate")


recipes = {
    "no penalty": rc.recipe("low_rank_recommended", epochs=250, learning_rate=3e-3, terms={}),
    "variance penalty": rc.recipe("low_rank_recommended", epochs=250, learning_rate=3e-3),
}
runs = {name: rc.train(decoder(), task, seed=0, training=recipe) for name, recipe in recipes.items()}
for name, run in runs.items():
    found = run.scores.summary()
    print(f"{name:17} ID error {found['id', 'mse'].mean:.1e}, OOD error {found['ood', 'mse'].mean:.1e}, "
          f"OOD localization {found['ood', 'localization'].mean:.2f}")  # fmt: skip

# %% tags=["remove-cell"]
plain, smooth = (run.scores.summary() for run in runs.values())
assert plain["id", "localization"].mean > 0.95
assert plain["ood", "localization"].mean < 0.6
assert smooth["ood", "localization"].mean > 0.9

# %% [markdown]
# Both networks fit the trained pairs. Without the penalty the architecture alone is not enough: the images are free to be
# anything that fits the trained pairs, and unseen pairs come out wrong. With the penalty unseen pairs are drawn where they
# belong.

# %% figure="samples" alt="Truth and output of the network with the variance penalty for five trained and five held-out pairs. All of them match."
runs["variance penalty"].scores.plot_samples(seed=1)

# %% [markdown]
# ## What the renderer has learned
#
# `maps()` returns the image of every value, first those of x, then those of y. `banding()` measures how far each is a band
# along an axis, between 0 and 1:

# %%
for name, run in runs.items():
    print(f"{name:17} banding {run.model.renderer.banding().mean():.2f}")

# %% tags=["remove-cell"]
bands = [run.model.renderer.banding().mean().item() for run in runs.values()]
assert bands[1] > 0.9 > bands[0]

# %% figure="maps" alt="Seven learned images of x and seven of y. Those of x are vertical bands, those of y horizontal bands."
from recombine.plotting import new_figure

maps = runs["variance penalty"].model.renderer.maps().detach()[:, 0]
figure = new_figure(9, 2.3)
axes = figure.subplots(2, 7)
for column, value in enumerate(range(1, 14, 2)):
    for row, name in enumerate("xy"):
        ax = axes[row, column]
        ax.imshow(maps[row * 14 + value], cmap="gray", origin="lower")
        ax.set_title(f"{name} = {value}", fontsize=8)
        ax.set_xticks([])
        ax.set_yticks([])
figure

# %% [markdown]
# The head receives a vertical and a horizontal band and keeps the place where both are bright. That rule does not depend
# on which bands it gets, so it holds for combinations that were never trained on.
#
# ## In your own network
#
# The renderer is an ordinary module. Put it in front of a network of yours, feed it value indices or a one-hot code, and
# add the penalty to your loss:

# %%
import torch

from recombine.models.decoders import FactorRenderer
from recombine.training.loss_terms import Variance

mine = torch.nn.Sequential(FactorRenderer((14, 14), image_shape=(14, 14)), torch.nn.Conv2d(2, 1, 3, padding=1))
indices = torch.tensor([[3, 8], [5, 5]])  # (batch, factor)
images = mine(indices)
penalty = Variance(weight=0.01)(mine)
print(tuple(images.shape), float(penalty.detach()) > 0)

# %% [markdown]
# [Forced rendering](../forced-rendering.md) has the other settings and measurements over several seeds.
#
# ## Exercise
#
# The paper uses two penalties. Add the *entropy* penalty, `terms={"variance": {"weight": 0.01}, "entropy": {"weight": 0.1}}`,
# and look at `renderer.effective_ranks()` and at the OOD localization for three seeds. The maps become simpler. Do unseen
# pairs come out better, too?
