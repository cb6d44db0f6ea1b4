# %% [markdown]
# # See the failure
#
# ![Truth and output for five trained and five held-out pairs. The trained bumps are drawn correctly. The held-out ones,
# framed in red, are misplaced, torn apart or faint.](images/1_see_the_failure-samples.png)
#
# A network receives two numbers, x and y, each in its own block of input units, and draws a bump at (x, y). We train it
# on most pairs and test it on the others. Every x and every y occurs in training, so only the *combinations* are new.
# The network still fails on them. This tutorial sets up the experiment, trains the network and measures the failure.

# %% [markdown]
# ## The task
#
# A *factor space* names the factors and their values. A *scene* draws factor values as an image, an *encoding* turns
# them into the input of the network, and a *hold-out* selects the combinations that are excluded from training.

# %%
import recombine as rc

space = rc.FactorSpace(x=14, y=14)
scene = rc.scenes.Bump(space)
code = rc.encodings.OneHot(space)
held_out = rc.holdouts.corner(space, 6)
print(held_out)
print(held_out.picture())

# %% [markdown]
# In the printed map, `█` marks a held-out pair and `·` a trained pair. Every row and every column contains trained
# pairs, and `coverage` confirms that every value of x and y occurs in training:

# %%
print(held_out.coverage())

# %% [markdown]
# The input is *disentangled* by construction. The first 14 units depend only on x, the last 14 only on y.

# %%
import torch

one_pair = torch.tensor([[4.0, 9.0]])
x_units, y_units = code(one_pair).reshape(2, 14)
print("x:", [int(v) for v in x_units])
print("y:", [int(v) for v in y_units])

# %% [markdown]
# ## Training
#
# The decoder is a fully connected network with three hidden layers. The recipe *recommended* trains on all
# in-distribution (ID) pairs. We use more epochs than its default because the grid is small.

# %%
task = rc.Task(scene, code, held_out)
model = rc.decoders.MLP(task, depth=3, width=256)
run = rc.train(model, task, seed=0, training=rc.recipe("recommended", epochs=60))
run.scores.summary()

# %% [markdown]
# The *ID* column shows the mean over trained pairs, the *OOD* (out-of-distribution) column the mean over held-out
# pairs. The brackets contain 95 % bootstrap intervals over cells. Two rows matter most:
#
# - `mse`, the mean squared error, is far larger on held-out pairs.
# - `localization` is the share of images whose brightest pixel lies within one pixel of the truth. It is 1 for trained
#   pairs, so the network has learnt them, and far lower for held-out pairs.

# %% tags=["remove-cell"]
numbers = run.scores.summary()
assert numbers["ood", "mse"].mean > 10 * numbers["id", "mse"].mean
assert numbers["id", "localization"].mean > 0.99
assert numbers["ood", "localization"].mean < 0.5

# %% [markdown]
# ## Where it fails
#
# The *error landscape* shows the error for every pair. The red line outlines the hold-out:

# %% figure="landscape" alt="Map of the mean squared error over x and y. It is small everywhere except inside the red outline of the hold-out, where it is larger by orders of magnitude."
run.scores.plot_landscape()

# %% [markdown]
# The error is confined to the hold-out, and it is large everywhere inside it.
#
# ## How it fails
#
# The figure shows five trained pairs and, framed in red, five held-out pairs. It displays the square root of the
# brightness, which makes faint errors visible:

# %% figure="samples" alt="Truth and output for five trained and five held-out pairs. The trained bumps are drawn correctly. The held-out ones, framed in red, are misplaced, torn apart or faint."
run.scores.plot_samples(seed=2)

# %% [markdown]
# The failures have structure. Bright spots appear where the network has seen bumps with the *same x* or the *same y*,
# as if it recalled training images instead of composing x and y. [The next tutorial](2_why_it_fails.md) tests this
# idea.
#
# ## Exercise
#
# In the one-hot code, nothing indicates that x = 4 and x = 5 are neighbours. Does this cause the failure? Replace
# `rc.encodings.OneHot(space)` by `rc.encodings.Bump(space)`, in which neighbouring values share units, and by
# `rc.encodings.Ramp(space)`, in which one unit holds the number itself. Train again and compare the OOD localization.
# Then hold out the centre, `rc.holdouts.centre(space, 4, 9)`, instead of the corner. Which of the two is harder, and
# why? (Hint: how far is the farthest held-out pair from a trained one?)
