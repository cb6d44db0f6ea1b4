# %% [markdown]
# # Why it fails: kernels and geometry
#
# ![Five held-out pairs, from top to bottom: the truth, the output of the network, the best sum of trained outputs,
# which looks like the output, the residual, the three strongest trained outputs in the sum, and the mean of all trained
# outputs that share x or y.](images/2_why_it_fails-superposition.png)
#
# [The first tutorial](1_see_the_failure.md) showed a decoder that draws trained pairs correctly and held-out pairs
# wrongly. This tutorial examines what it does instead. It uses two kinds of evidence: *kernels*, which compare outputs
# with each other, and *geometry*, which follows the factors through the layers.

# %%
import recombine as rc

space = rc.FactorSpace(x=14, y=14)
task = rc.Task(rc.scenes.Bump(space), rc.encodings.OneHot(space), rc.holdouts.corner(space, 6))
model = rc.decoders.MLP(task, depth=3, width=256)
run = rc.train(model, task, seed=0, training=rc.recipe("recommended", epochs=60))

# %% [markdown]
# `diagnose` runs the model over the whole grid and computes *parts*. We request four of them:

# %%
diagnosis = run.diagnose(parts=["errors", "superposition", "kernels", "geometry"])
print(diagnosis.verdict)

# %% tags=["remove-cell"]
assert diagnosis.verdict.kind == "superposes"

# %% [markdown]
# ## Sums of trained outputs
#
# Our hypothesis is that, for an unseen pair, the network returns a sum of the outputs it learnt for trained pairs with
# the same x or the same y. The *superposition* part fits every held-out output by such a sum with nonnegative weights
# and compares the fit with controls. It then assigns a class to each held-out cell:

# %%
classes = diagnosis.to_pandas("superposition", "classes")
print(classes[classes["split"] == "ood"]["class"].value_counts().to_string())

# %% [markdown]
# The class is `sum` only if the sum explains the output clearly better than the true image at any strength, and better
# than trained outputs that share neither x nor y. The figure shows five cells:

# %% figure="superposition" alt="Five held-out pairs, from top to bottom: the truth, the output of the network, the best sum of trained outputs, which looks like the output, the residual, the three strongest trained outputs in the sum, and the mean of all trained outputs that share x or y."
diagnosis.plot("superposition")

# %% [markdown]
# ## The kernel view
#
# A model that only memorizes treats an unseen pair as similar to every trained pair that shares a value with it. The
# *binary factorized kernel* expresses this prediction: $K = k_x + k_y - k_x k_y$ with $k(a, b) = 1$ if $a = b$ and 0
# otherwise. The *kernels* part compares it with the similarity of the actual outputs. In the Gram matrices below,
# trained cells come first. The matrix on the right is the prediction. The number above each other matrix is its
# correlation with the prediction over the block of held-out rows and trained columns:

# %% figure="kernels" alt="Gram matrices of all outputs for three similarities, trained cells first, beside the binary factorized kernel. The block of held-out rows and trained columns correlates with it at about 0.5."
diagnosis.plot("kernels")

# %% [markdown]
# ## The geometric view
#
# At every layer with activation $a$, the Jacobian $J = \partial a / \partial (x, y)$ describes how the activation
# changes when a factor changes. The metric tensor is $g = J^\top J$, and the *factorization* score $F = 1 - |g_{xy}| /
# (|g_{xx}| + |g_{yy}|)$ is 1 where x and y move the activation in orthogonal directions. The input code has $F = 1$
# everywhere. If the network kept the factors apart, $F$ would stay close to 1 in all layers:

# %%
table = diagnosis.to_pandas("geometry")
table = table[table["pair"] == "all"].pivot(index="layer", columns="cells", values="factorization_pointwise")
print(table.loc[list(diagnosis.layers), ["id", "ood"]].round(3).to_string())

# %% tags=["remove-cell"]
assert table.loc["in", "ood"] > 0.999
assert table.loc["layers.3.act", "ood"] < table.loc["layers.3.act", "id"] < table.loc["layers.1.act", "id"] < 0.999

# %% figure="geometry" alt="Maps of the volume element for every layer, with the outline of the hold-out, and the factorization score by layer, which falls faster on held-out cells than on trained ones."
diagnosis.plot("geometry")

# %% [markdown]
# The factors are orthogonal at the input, and every hidden layer mixes them a little more. They are mixed more for
# held-out pairs than for trained pairs. The maps show the *volume element* $\sqrt{\det g}$, the area in activation
# space that a unit square of x and y covers. From the first hidden layer on, the hold-out is visible, although the
# input code treats all pairs alike.
#
# Both views agree: disentangled *inputs* do not make the *computation* compositional. The network learns a set of
# images, one per trained pair, and a rule for mixing them. The remedies in the next two tutorials, [by
# architecture](3_cure_it_by_architecture.md) and [by data](4_cure_it_by_data.md), both force the factors to be rendered
# separately in pixel space.
#
# ## Exercise
#
# Repeat the diagnosis for a network that has not been trained: `rc.diagnose(rc.decoders.MLP(task, depth=3, width=256),
# space, task.inputs, task.holdout, target=task.targets)`. Which of the two effects, the loss of factorization or the
# sums of trained outputs, is already present before training? What does this tell you about the cause of each?
