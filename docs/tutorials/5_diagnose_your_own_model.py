# %% [markdown]
# # Diagnose your own model
#
# ![Five held-out pairs, from top to bottom: the truth, the output of a plain PyTorch network, the best sum of trained
# outputs, which looks like the output, the residual, the three strongest trained outputs in the sum, and the mean of
# all trained outputs that share x or y.](images/5_diagnose_your_own_model-superposition.png)
#
# `recombine.diagnose` accepts any module or function that maps codes to outputs. The model does not have to be built or
# trained with recombine. In this tutorial we write a network and a training loop in plain PyTorch, diagnose the trained
# network, and check that a model that composes gets a different verdict.

# %% [markdown]
# ## A custom model and training loop
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
# Three arguments describe the experiment: the factor space, a function that maps factor values to the model's input,
# and the held-out combinations. The true images are optional; here they are an array over the grid. Because integers
# have no derivative, we compute the geometry by finite differences on the grid.

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
# The *verdict* describes what the model does with unseen pairs. The table has one row per layer. It shows the
# factorization score (1 means that x and y move the activation in orthogonal directions) and how well linear probes
# predict the factors. `Missing` lists the results that could not be computed, with the reason.
#
# Every part has tables and a figure:

# %% figure="superposition" alt="Five held-out pairs, from top to bottom: the truth, the output of a plain PyTorch network, the best sum of trained outputs, which looks like the output, the residual, the three strongest trained outputs in the sum, and the mean of all trained outputs that share x or y."
diagnosis.plot("superposition")

# %%
print(diagnosis.to_pandas("superposition", "factors").round(2).to_string(index=False))

# %% [markdown]
# For each factor, the table shows the share of unseen and of trained outputs with the right value of that factor.
#
# ## Can the verdict be trusted?
#
# A test is informative only if its result can differ. We therefore diagnose two more models. The first one composes: it
# is the drawing function itself with a small error. The second one copies the output of the nearest trained pair:


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
# `diagnosis.save("folder")` saves a diagnosis, and `rc.explore(diagnosis)` shows it as an interactive page. [Diagnose a
# model](../diagnose.md) explains the parts and [The verdict](../verdict.md) the classes and thresholds; [Your
# model](../your-model.md) has examples for VAEs, GANs, diffusion samplers and models with other inputs.
#
# ## Exercise
#
# Do the randomly initialized embeddings cause the failure? Replace the two embedding tables by fixed one-hot codes
# (`torch.nn.functional.one_hot(pairs, 10).flatten(1).float()`), train again and diagnose. Then use the numbers x and y,
# divided by 10, as the input. Which verdict does each of the three inputs lead to?
