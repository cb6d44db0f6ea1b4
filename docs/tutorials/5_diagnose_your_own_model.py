# %% [markdown]
# # Diagnose your own model
#
# ![Five held-out pairs, from top to bottom: the truth, the output of a plain PyTorch network, the best sum of trained
# outputs, which looks like the output, the residual, the three strongest trained outputs in the sum, and the mean of
# all trained outputs that share x or y.](images/5_diagnose_your_own_model-superposition.png)
#
# `recombine.diagnose` takes any module or function from codes to outputs. Nothing about the model has to come from
# recombine. This tutorial writes a network and a training loop in plain PyTorch, diagnoses the result, and checks that the
# verdict would have been different for a model that composes.

# %% [markdown]
# ## A model and a loop of our own
#
# The model embeds two integers and draws a 10 × 10 image. We train it on all pairs except a block in one corner.

# %%
import torch
from torch import nn


class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleList([nn.Embedding(10, 24), nn.Embedding(10, 24)])
        self.body = nn.Sequential(nn.Linear(48, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 100))

    def forward(self, pairs):  # (batch, 2) integers
        joined = torch.cat([table(pairs[:, i]) for i, table in enumerate(self.embed)], dim=1)
        return self.body(joined).reshape(-1, 10, 10)


def draw(pairs):
    """A soft square around (x, y)."""
    pixels = torch.arange(10.0)
    x, y = (torch.sigmoid(4 * (2 - (pixels - pairs[:, i, None]).abs())) for i in (0, 1))
    return y[:, :, None] * x[:, None, :]


torch.manual_seed(0)
pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10))
unseen = (pairs >= 5).all(dim=1)
model, images = Painter(), draw(pairs)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(600):
    loss = (model(pairs[~unseen]) - images[~unseen]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss on trained pairs {loss.item():.1e}")

# %% [markdown]
# ## The diagnosis
#
# Three things describe the experiment: the factor space, the function from factor values to what the model takes, and the
# held-out combinations. The truth is optional; here it is an array over the grid. Because integers have no derivative, we
# ask for the geometry by finite differences on the grid.

# %%
import recombine as rc

space = rc.FactorSpace(x=10, y=10)
diagnosis = rc.diagnose(
    model,
    space,
    lambda values: values.long(),
    unseen.reshape(10, 10),
    target=images.reshape(10, 10, 10, 10),
    parts=["errors", "superposition", "geometry", "probes"],
    geometry="finite difference",
)
print(diagnosis)

# %% tags=["remove-cell"]
assert diagnosis.verdict.kind not in ("composes", "not learnt")
assert diagnosis["geometry"].computed

# %% [markdown]
# Read it from the top. The *verdict* says what the model does with unseen pairs. The table has a row per layer:
# factorization (1 means that x and y move the activation in orthogonal directions) and how well a linear probe reads each
# factor. `Missing` lists what could not be computed, and why; nothing is ever filled in silently.
#
# Every number has a table behind it, and every part a figure:

# %% figure="superposition" alt="Five held-out pairs, from top to bottom: the truth, the output of a plain PyTorch network, the best sum of trained outputs, which looks like the output, the residual, the three strongest trained outputs in the sum, and the mean of all trained outputs that share x or y."
diagnosis.plot("superposition")

# %%
print(diagnosis.to_pandas("superposition", "factors").round(2).to_string(index=False))

# %% [markdown]
# The last table gives, for each factor, the share of unseen and of trained outputs that show its right value.
#
# ## Can the verdict be trusted?
#
# A test that can only answer one thing is no test. Here is a model that composes, the drawing function itself with a little
# noise, and one that answers with the nearest trained pair:


# %%
def composing(pairs):
    return draw(pairs) + 0.02 * torch.sin(17.0 * (pairs[:, :1, None] + 3.0 * pairs[:, 1:, None]))


def copying(pairs):
    nearest = pairs.clone()
    nearest[(pairs >= 5).all(dim=1), 0] = 4
    return draw(nearest)


for name, other in {"composing": composing, "copying": copying}.items():
    found = rc.diagnose(
        other, space, lambda values: values.long(), unseen.reshape(10, 10), target=images.reshape(10, 10, 10, 10),
        parts=["superposition"],
    )  # fmt: skip
    print(f"{name}: {found.verdict.kind}; failing factors: {', '.join(found.verdict.failing) or 'none'}")

# %% tags=["remove-cell"]
assert found.verdict.kind == "copies"

# %% [markdown]
# A diagnosis can be saved and loaded, `diagnosis.save("folder")`, and shown as an interactive page,
# `rc.explore(diagnosis)`. [Diagnose a model](../diagnose.md) explains the parts, the classes and the thresholds;
# [Your model](../your-model.md) has recipes for VAEs, GANs, diffusion samplers and models with other inputs.
#
# ## Exercise
#
# Is the failure due to the embeddings, which start out random? Replace the two embedding tables by fixed one-hot codes
# (`torch.nn.functional.one_hot(pairs, 10).flatten(1).float()`), train again and diagnose. Then give the model the numbers
# x and y themselves, divided by 10. Which of the three inputs leads to which verdict?
