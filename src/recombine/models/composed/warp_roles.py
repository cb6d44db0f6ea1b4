"""The roles of a composer's factors if some of them resize or turn the object, determined from trained images.

    roles = warp_roles(composer, indices, images)           # None if no factor does

Factors that tint, scale or do nothing are known from the composer. What the others do is observed in the images, from
which the ground was taken off.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.observed import Objects, Observed, objects_of, observed, rotation
from recombine.models.composed.roles import EXPLAINED, WARPS, Does, Role, Roles, middle_of, roles_of

CLOSE = 1e-3  # difference from 1 of the weight of a value that an image shows
WHOLE = 0.2  # pixels by which the places of objects may differ from whole shifts
FLAT = 0.02  # range of a ground, in units of the contrast, below which it is flat


def warp_roles(
    composer: FactorComposer,
    given: Tensor,
    images: Float[Tensor, "image ..."],
    ground: Float[Tensor, "channel row column"],
) -> Roles | None:
    """The roles of the factors of a composer with one term, of which at least one resizes or turns; else None.

    Args:
        composer: The composer, trained, but not necessarily simplified.
        given: Indices or codes of the images. Images between two values of a factor are left out.
        images: Images that the composer should make.
        ground: What the images show without the object.
    """
    weights = composer.weights(given)
    single = torch.stack([(block - 1).abs().min(1).values < CLOSE for block in weights]).all(0)
    if not single.any():
        return None
    values = torch.stack([block[single].argmax(1) for block in weights], dim=1).cpu()
    apart = images[single].reshape(-1, *ground.shape) - ground
    objects = objects_of(apart.float().cpu(), values)  # on the CPU: least squares of deficient rank run only there
    if not len(objects.values):
        return None
    found = list(roles_of(composer).roles)
    for factor, role in enumerate(found):
        if role.does in (Does.MOVES, Does.DRAWS):
            seen = observed(objects, factor, composer.factor_sizes[factor], EXPLAINED)
            found[factor] = replace(role, **_told(seen))
    if not any(role.does in WARPS for role in found):
        return None
    return Roles(tuple(_between(composer, _placed(composer, objects, found))))


def _told(seen: Observed) -> dict[str, object]:
    shares = {Does.RESIZES: seen.resizes, Does.TURNS: seen.turns, Does.WARPS: seen.warps}
    does = next((does for does, share in shares.items() if share >= EXPLAINED), None)
    if does is None:
        return {"does": Does.MOVES if seen.moves >= EXPLAINED else Does.DRAWS}
    warps = tuple((s, a, 0.0, 0.0) for s, a in zip(seen.scales.tolist(), seen.angles.tolist()))
    explained = {Does.MOVES.value: seen.moves, does.value: shares[does]}
    return {"does": does, "warps": warps, "explained": explained}


def _placed(composer: FactorComposer, objects: Objects, roles: list[Role]) -> list[Role]:
    """The roles with shifts of factors that move, resize or turn, such that the objects are where the images show them.
    An object that is drawn beside the centre moves when it is resized or turned."""
    sizes = composer.factor_sizes
    count, total = len(objects.values), torch.zeros(len(objects.values), 2)
    draws = [k for k, role in enumerate(roles) if role.does is Does.DRAWS]
    acts = [k for k, role in enumerate(roles) if role.does in WARPS or role.does is Does.MOVES]
    for k, role in enumerate(roles):
        if role.does in WARPS:
            total = total + torch.tensor(role.warps)[objects.values[:, k], :2]
    linear = total[:, 0].exp()[:, None, None] * rotation(total[:, 1])
    drawn = objects.values[:, draws].unique(dim=0, return_inverse=True)[1] if draws else torch.zeros(count).long()
    columns = [torch.einsum("nij,nd->nidj", linear, F.one_hot(drawn).float()).flatten(2)]
    for k in acts:
        own = F.one_hot(objects.values[:, k], sizes[k]).float()
        columns.append(torch.einsum("ij,nv->nivj", torch.eye(2), own).flatten(2))
    system = torch.cat(columns, dim=2).flatten(0, 1)
    solved = torch.linalg.lstsq(system, objects.places.reshape(-1, 1), driver="gelsd").solution[:, 0]
    places = solved.unflatten(0, (-1, 2))[columns[0].shape[2] // 2 :].split([sizes[k] for k in acts])
    found = list(roles)
    for k, own in zip(acts, places):
        if roles[k].does in WARPS:
            warps = tuple((*warp[:2], *at) for warp, at in zip(roles[k].warps, own.tolist()))
            found[k] = replace(roles[k], warps=warps)
        else:
            found[k] = replace(roles[k], shifts=_shifts(own - own[middle_of(composer, k)]))
    return found


def _between(composer: FactorComposer, roles: list[Role]) -> list[Role]:
    """The roles with warps of all values, some of which are interpolated."""
    found = []
    for k, role in enumerate(roles):
        warps = (composer.between_of(k).cpu().float() @ torch.tensor(role.warps)).tolist() if role.warps else []
        found.append(replace(role, warps=tuple(map(tuple, warps))))
    return found


def _shifts(places: Float[Tensor, "value 2"]) -> list[tuple[float, float]]:
    whole = places.round()
    own = whole if (places - whole).abs().max() < WHOLE else places
    return [(right, down) for down, right in own.tolist()]


def grounds_of(composer: FactorComposer) -> list[Float[Tensor, "channel row column"]]:
    """What may lie behind the object: the median of the images or, if this is not flat, first the colour of its border.
    An object that never leaves the centre is in the median as well."""
    start = composer.start
    border = torch.cat([start[:, 0], start[:, -1], start[:, :, 0], start[:, :, -1]], dim=1).median(1).values
    flat = border[:, None, None].expand_as(start)
    return [start] if (start - flat).abs().max() < FLAT * composer.contrast else [flat, start]
