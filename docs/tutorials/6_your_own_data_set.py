# %% [markdown]
# # Your own data set, from folder to page
#
# ![A row of small coloured pictures for each factor of the data set: colour, shape and
# place.](images/6_your_own_data_set-sheet.png)
#
# Suppose you have a folder of pictures and know the factor values of each picture. This tutorial trains a network on
# them and creates an interactive page that shows what the network does with combinations it has never seen.

# %% [markdown]
# ## A folder with a table
#
# recombine reads folders of PNG or JPEG files. The folder also contains a file `labels.csv` with a column `file` and
# one column per factor. We draw a small data set with two shapes in three colours at six places.

# %%
from pathlib import Path

import numpy as np
from PIL import Image

folder = Path("pictures")
folder.mkdir()
rgb = {"red": (230, 60, 40), "green": (60, 180, 80), "blue": (60, 90, 220)}
lines = ["file,colour,shape,place"]
for colour, ink in rgb.items():
    for shape in ("square", "cross"):
        for place in range(6):
            picture = np.full((14, 14, 3), 25, dtype=np.uint8)
            row, column = 4, 1 + place
            if shape == "square":
                picture[row : row + 6, column : column + 6] = ink
            else:
                picture[row + 2 : row + 4, column : column + 6] = ink
                picture[row : row + 6, column + 2 : column + 4] = ink
            name = f"{colour}-{shape}-{place}.png"
            Image.fromarray(picture).save(folder / name)
            lines.append(f"{name},{colour},{shape},{place}")
(folder / "labels.csv").write_text("\n".join(lines))
print(*lines[:4], sep="\n")

# %% [markdown]
# ## The task
#
# `Task.from_data` reads the labels, determines the factors and their values, and applies a hold-out. An entry of the
# hold-out may omit factors and then covers all their values. Here red crosses are held out at every place.

# %%
import recombine as rc

task = rc.Task.from_data("pictures", holdout=[{"colour": "red", "shape": "cross"}])
print(task.space)
print(task.holdout)

# %% [markdown]
# It is a good idea to look at the data before training. The contact sheet varies one factor per row and keeps the
# others fixed. On the command line, `recombine data show pictures` prints the factors and draws the same sheet.

# %% figure="sheet" alt="A row of small coloured pictures for each factor of the data set: colour, shape and place."
from recombine.plotting.contact_sheet import contact_sheet

contact_sheet(task.scene.dataset)

# %% [markdown]
# ## Training
#
# Any decoder works, including your own module (see [Your model](../your-model.md)).

# %%
model = rc.decoders.MLP(task, depth=3, width=128)
run = rc.train(model, task, seed=0, training=rc.recipe("recommended", epochs=150))
run.scores.summary()

# %% [markdown]
# recombine computes the metrics that apply to the data. *localization* is missing here because it requires a single
# object at a known position.

# %% figure="samples" alt="Truth and output for four trained pictures, which are drawn correctly, and for four red crosses, which come out as a mixture of a red square and crosses of other colours."
run.scores.plot_samples(n=4)

# %% [markdown]
# ## The verdict
#
# The verdict describes what the network does with red crosses. For each factor, the table below it shows the share of
# outputs with the right value of that factor.

# %%
diagnosis = run.diagnose(parts=["outputs", "errors", "superposition", "geometry", "probes"])
print(diagnosis.verdict)
print(diagnosis.to_pandas("superposition", "factors").round(2).to_string(index=False))

# %% tags=["remove-cell"]
assert diagnosis.verdict.kind == "superposes"
assert run.scores.summary()["id", "relative_error"].mean < 0.1

# %% [markdown]
# The samples agree with the verdict. The output for a red cross is a pale mixture of a red square and crosses of other
# colours, all of which occur in training.
#
# ## The page
#
# `run.report` writes a single HTML file that works offline. Open it in a browser, pick a combination, and compare the
# truth, the output and the activations of every layer.

# %%
page = run.report("page.html", name="MLP")
print(page, f"{page.stat().st_size / 1e6:.1f} MB")

# %% tags=["remove-cell"]
assert page.stat().st_size > 10_000

# %% [markdown]
# ![The page: the error landscape of a decoder, and for one unseen pair the truth, the outputs of three networks, the
# difference, and the superposition.](../images/report.png)
#
# `run.save("runs", name="first try")` saves the run. `recombine report runs` then creates a page of all runs in the
# store. [Your data](../your-data.md) covers arrays, published data sets, missing combinations, several pictures per
# combination, and files larger than memory.
#
# ## Exercise
#
# Add a column `split` with the words *train* and *test* to `labels.csv`, mark the red crosses as *test*, and omit
# `holdout=…`. recombine then uses the split of the data set. Next, mark three of the six places of *all* crosses as
# *test* instead. Which factor does the verdict name now?
