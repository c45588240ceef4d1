"""Triton kernels: batch norm with LeakyReLU and, where asked, 2x2 max-pooling and channel dropout, in one piece.

Activations are bf16 and channels last, so a tensor is a matrix [rows, channels] with one row a pixel. Forward reads the
convolution's output twice and writes once; backward reads it and the gradient twice and writes once. Nothing else is
stored between the two: the pool's winner and the LeakyReLU's side are found again from the convolution's output.
Sums are added up in a fixed order, so that the same step gives the same bits. A reduction goes through its tensor from
the end to the start and the pass after it from the start to the end: what was touched last is still in the cache.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

_PROGRAMS = 132  # of a reduction, at most: one a multiprocessor of an H100 or H200
_ROWS, _ROWS_OF_SUMS = 32, 16
_CHANNELS, _CHANNELS_OF_SUMS = 128, 64
_ELEMENTS = 4096  # that one program casts
_AT_ONCE = 8  # blocks of rows that a reduction loads before it adds them up, so that the memory is kept busy


@triton.jit
def _total(parts, channel, C: tl.constexpr, PROGRAMS: tl.constexpr, BC: tl.constexpr):
    """Add up what every program of a reduction left behind, in order."""
    first = tl.zeros((32, BC), tl.float32)
    second = tl.zeros((32, BC), tl.float32)
    for start in tl.static_range(0, PROGRAMS, 32):
        program = start + tl.arange(0, 32)
        there = (program < PROGRAMS)[:, None]
        place = parts + program[:, None] * 2 * C + channel[None, :]
        # past the multiprocessor's own cache, which does not see what others have written
        first += tl.load(place, mask=there, other=0.0, cache_modifier=".cg")
        second += tl.load(place + C, mask=there, other=0.0, cache_modifier=".cg")
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def _leave(parts, count, channel, first, second, C: tl.constexpr):
    """Leave this program's sums behind; returns how many programs had done so before."""
    place = parts + tl.program_id(0) * 2 * C + channel
    tl.store(place, first)
    tl.store(place + C, second)
    tl.debug_barrier()
    return tl.atomic_add(count + tl.program_id(1), 1)


@triton.jit
def _statistics(
    x, parts, count, mean, rstd, running_mean, running_var, bias, rows, eps, momentum,
    C: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, PROGRAMS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    total = tl.zeros((BR, BC), tl.float32)
    squares = tl.zeros((BR, BC), tl.float32)
    for start in range(tl.program_id(0) * BR * AT_ONCE, rows, PROGRAMS * BR * AT_ONCE):
        for part in tl.static_range(AT_ONCE):
            row = rows - 1 - start - part * BR - tl.arange(0, BR)
            value = tl.load(x + row[:, None].to(tl.int64) * C + channel[None, :], mask=(row >= 0)[:, None], other=0.0)
            value = value.to(tl.float32)
            total += value
            squares += value * value
    if _leave(parts, count, channel, tl.sum(total, 0), tl.sum(squares, 0), C) == PROGRAMS - 1:
        sum_, sum_of_squares = _total(parts, channel, C, PROGRAMS, BC)
        m = sum_ / rows
        var = tl.maximum(sum_of_squares / rows - m * m, 0.0)
        tl.store(mean + channel, m)
        tl.store(rstd + channel, 1.0 / tl.sqrt(var + eps))
        # the convolution's bias is left out in training, where batch norm cancels it; the running mean has it
        old = tl.load(running_mean + channel)
        tl.store(running_mean + channel, old + momentum * (m + tl.load(bias + channel) - old))
        old = tl.load(running_var + channel)
        tl.store(running_var + channel, old + momentum * (var * (rows / (rows - 1)) - old))
        tl.store(count + tl.program_id(1), 0)


@triton.jit
def _forward(
    x, y, mean, rstd, gamma, beta, rows, slope, C: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    scale = tl.load(gamma + channel) * tl.load(rstd + channel)
    shift = tl.load(beta + channel) - tl.load(mean + channel) * scale
    place = row[:, None].to(tl.int64) * C + channel[None, :]
    there = (row < rows)[:, None]
    value = tl.load(x + place, mask=there, other=0.0, eviction_policy="evict_first")
    z = value.to(tl.float32) * scale[None, :] + shift[None, :]
    tl.store(y + place, tl.where(z > 0, z, z * slope).to(tl.bfloat16), mask=there)


@triton.jit
def _window(row, channel, H, W, C: tl.constexpr):
    """The sample of a pooled pixel, and the first of the four pixels under it."""
    n = row // ((H // 2) * (W // 2))
    top = 2 * ((row // (W // 2)) % (H // 2))
    left = 2 * (row % (W // 2))
    return n, ((n * H + top) * W + left).to(tl.int64)[:, None] * C + channel[None, :]


@triton.jit
def _normal(x, place, there, mean, rstd, LAST: tl.constexpr):
    """Normalised values; the last pass over them makes room in the cache for what comes next."""
    value = tl.load(x + place, mask=there, other=0.0, eviction_policy="evict_first" if LAST else "")
    return (value.to(tl.float32) - mean) * rstd


@triton.jit
def _forward_pool(
    x, y, drop, mean, rstd, gamma, beta, rows, H, W, slope,
    DROP: tl.constexpr, C: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    m, r = tl.load(mean + channel)[None, :], tl.load(rstd + channel)[None, :]
    g, b = tl.load(gamma + channel)[None, :], tl.load(beta + channel)[None, :]
    there = (row < rows)[:, None]
    n, place = _window(row, channel, H, W, C)
    upper = tl.maximum(_normal(x, place, there, m, r, True) * g + b, _normal(x, place + C, there, m, r, True) * g + b)
    place += W * C
    lower = tl.maximum(_normal(x, place, there, m, r, True) * g + b, _normal(x, place + C, there, m, r, True) * g + b)
    z = tl.maximum(upper, lower)
    z = tl.where(z > 0, z, z * slope)
    if DROP:
        z = z * tl.load(drop + n[:, None] * C + channel[None, :], mask=there, other=0.0)
    tl.store(y + row[:, None].to(tl.int64) * C + channel[None, :], z.to(tl.bfloat16), mask=there)


@triton.jit
def _backward_sums(
    x, dy, parts, count, dgamma, dbeta, mean, rstd, gamma, beta, rows, slope,
    C: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, PROGRAMS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    m, r = tl.load(mean + channel)[None, :], tl.load(rstd + channel)[None, :]
    g, b = tl.load(gamma + channel)[None, :], tl.load(beta + channel)[None, :]
    total = tl.zeros((BR, BC), tl.float32)
    product = tl.zeros((BR, BC), tl.float32)
    for start in range(tl.program_id(0) * BR * AT_ONCE, rows, PROGRAMS * BR * AT_ONCE):
        for part in tl.static_range(AT_ONCE):
            row = rows - 1 - start - part * BR - tl.arange(0, BR)
            there = (row >= 0)[:, None]
            place = row[:, None].to(tl.int64) * C + channel[None, :]
            normal = _normal(x, place, there, m, r, False)
            dz = tl.load(dy + place, mask=there, other=0.0).to(tl.float32)
            dz = tl.where(normal * g + b > 0, dz, dz * slope)
            total += dz
            product += dz * normal
    if _leave(parts, count, channel, tl.sum(total, 0), tl.sum(product, 0), C) == PROGRAMS - 1:
        db, dg = _total(parts, channel, C, PROGRAMS, BC)
        tl.store(dbeta + channel, db)
        tl.store(dgamma + channel, dg)
        tl.store(count + tl.program_id(1), 0)


@triton.jit
def _backward(
    x, dy, dx, dgamma, dbeta, mean, rstd, gamma, beta, rows, slope,
    C: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    m, r = tl.load(mean + channel)[None, :], tl.load(rstd + channel)[None, :]
    g, b = tl.load(gamma + channel)[None, :], tl.load(beta + channel)[None, :]
    mean_dg, mean_db = (tl.load(dgamma + channel) / rows)[None, :], (tl.load(dbeta + channel) / rows)[None, :]
    there = (row < rows)[:, None]
    place = row[:, None].to(tl.int64) * C + channel[None, :]
    normal = _normal(x, place, there, m, r, True)
    dz = tl.load(dy + place, mask=there, other=0.0, eviction_policy="evict_first").to(tl.float32)
    dz = tl.where(normal * g + b > 0, dz, dz * slope)
    tl.store(dx + place, ((dz - mean_db - normal * mean_dg) * (g * r)).to(tl.bfloat16), mask=there)


@triton.jit
def _pooled_gradient(dy, drop, row, n, channel, there, winner, slope, DROP: tl.constexpr, C: tl.constexpr):
    """The gradient before pooling, at the pixel that won."""
    dz = tl.load(dy + row[:, None].to(tl.int64) * C + channel[None, :], mask=there, other=0.0).to(tl.float32)
    if DROP:
        dz = dz * tl.load(drop + n[:, None] * C + channel[None, :], mask=there, other=0.0)
    return tl.where(winner > 0, dz, dz * slope)


@triton.jit
def _backward_sums_pool(
    x, dy, drop, parts, count, dgamma, dbeta, mean, rstd, gamma, beta, rows, H, W, slope,
    DROP: tl.constexpr, C: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, PROGRAMS: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    m, r = tl.load(mean + channel)[None, :], tl.load(rstd + channel)[None, :]
    g, b = tl.load(gamma + channel)[None, :], tl.load(beta + channel)[None, :]
    total = tl.zeros((BR, BC), tl.float32)
    product = tl.zeros((BR, BC), tl.float32)
    for start in range(tl.program_id(0) * BR * AT_ONCE, rows, PROGRAMS * BR * AT_ONCE):
        for part in tl.static_range(AT_ONCE):
            row = rows - 1 - start - part * BR - tl.arange(0, BR)
            there = (row >= 0)[:, None]
            n, place = _window(row, channel, H, W, C)
            n0, n1 = _normal(x, place, there, m, r, False), _normal(x, place + C, there, m, r, False)
            place += W * C
            n2, n3 = _normal(x, place, there, m, r, False), _normal(x, place + C, there, m, r, False)
            z0, z1, z2, z3 = n0 * g + b, n1 * g + b, n2 * g + b, n3 * g + b
            winner = tl.maximum(tl.maximum(z0, z1), tl.maximum(z2, z3))
            normal = tl.where(z0 == winner, n0, tl.where(z1 == winner, n1, tl.where(z2 == winner, n2, n3)))
            dz = _pooled_gradient(dy, drop, row, n, channel, there, winner, slope, DROP, C)
            total += dz
            product += dz * normal
    if _leave(parts, count, channel, tl.sum(total, 0), tl.sum(product, 0), C) == PROGRAMS - 1:
        db, dg = _total(parts, channel, C, PROGRAMS, BC)
        tl.store(dbeta + channel, db)
        tl.store(dgamma + channel, dg)
        tl.store(count + tl.program_id(1), 0)


@triton.jit
def _backward_pool(
    x, dy, drop, dx, dgamma, dbeta, mean, rstd, gamma, beta, rows, H, W, slope,
    DROP: tl.constexpr, C: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    m, r = tl.load(mean + channel)[None, :], tl.load(rstd + channel)[None, :]
    g, b = tl.load(gamma + channel)[None, :], tl.load(beta + channel)[None, :]
    pixels = 4 * rows
    mean_dg, mean_db = (tl.load(dgamma + channel) / pixels)[None, :], (tl.load(dbeta + channel) / pixels)[None, :]
    there = (row < rows)[:, None]
    n, place = _window(row, channel, H, W, C)
    n0, n1 = _normal(x, place, there, m, r, True), _normal(x, place + C, there, m, r, True)
    n2, n3 = _normal(x, place + W * C, there, m, r, True), _normal(x, place + W * C + C, there, m, r, True)
    z0, z1, z2, z3 = n0 * g + b, n1 * g + b, n2 * g + b, n3 * g + b
    winner = tl.maximum(tl.maximum(z0, z1), tl.maximum(z2, z3))
    dz = _pooled_gradient(dy, drop, row, n, channel, there, winner, slope, DROP, C)
    # of equal pixels the first one wins, as in torch
    w0 = z0 == winner
    w1 = (z1 == winner) & (w0 == 0)
    w2 = (z2 == winner) & (w0 == 0) & (w1 == 0)
    w3 = (w0 == 0) & (w1 == 0) & (w2 == 0)
    factor = g * r
    tl.store(dx + place, ((tl.where(w0, dz, 0.0) - mean_db - n0 * mean_dg) * factor).to(tl.bfloat16), mask=there)
    tl.store(dx + place + C, ((tl.where(w1, dz, 0.0) - mean_db - n1 * mean_dg) * factor).to(tl.bfloat16), mask=there)
    place += W * C
    tl.store(dx + place, ((tl.where(w2, dz, 0.0) - mean_db - n2 * mean_dg) * factor).to(tl.bfloat16), mask=there)
    tl.store(dx + place + C, ((tl.where(w3, dz, 0.0) - mean_db - n3 * mean_dg) * factor).to(tl.bfloat16), mask=there)


@triton.jit
def _unfold(
    x, y, pixels, C, H, W, of_n, of_c, of_h, of_w, WIDE: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr
):  # fmt: skip
    pixel = tl.program_id(0) * BP + tl.arange(0, BP)
    k = tl.arange(0, BK)  # channel by channel, the 3 x 3 pixels around: as a weight of a convolution lies in memory
    n = (pixel // (H * W)).to(tl.int64)
    h = (pixel // W % H)[:, None] + (k % 9 // 3 - 1)[None, :]
    w = (pixel % W)[:, None] + (k % 3 - 1)[None, :]
    there = (pixel < pixels)[:, None]
    inside = there & (k < 9 * C)[None, :] & (h >= 0) & (h < H) & (w >= 0) & (w < W)
    value = tl.load(x + n[:, None] * of_n + (k // 9)[None, :] * of_c + h * of_h + w * of_w, mask=inside, other=0.0)
    place = pixel[:, None].to(tl.int64) * WIDE + k[None, :]
    tl.store(y + place, value.to(tl.bfloat16), mask=there & (k < WIDE)[None, :])


@triton.jit
def _cast(sources, targets, sizes: tl.constexpr, firsts: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    for i in tl.static_range(len(sizes)):
        if (program >= firsts[i]) & (program < firsts[i + 1]):
            place = (program - firsts[i]) * BLOCK + tl.arange(0, BLOCK)
            there = place < sizes[i]
            value = tl.load(sources[i] + place, mask=there)
            tl.store(targets[i] + place, value.to(targets[i].dtype.element_ty), mask=there)


class Workspace:
    """Room for the partial sums of one network's reductions, which run one after another."""

    def __init__(self, channels: int, device: torch.device) -> None:
        self.parts = torch.empty(_PROGRAMS * 2 * channels, device=device)
        self.count = torch.zeros(channels, dtype=torch.int32, device=device)


def _programs(rows: int, block: int) -> int:
    """How many programs share a reduction: a small tensor takes longer to collect from many than to read by few."""
    return min(_PROGRAMS, triton.cdiv(rows, block * _AT_ONCE))  # type: ignore[no-any-return]


def unfolded_channels(channels: int) -> int:
    """Of an image after `unfolded`: a multiple of eight, which the tensor cores load well."""
    return -(-9 * channels // 8) * 8


def unfolded(x: Tensor) -> Tensor:
    """Images with the 3 x 3 pixels around each pixel as its channels, in bf16.

    The first convolution is then one of single pixels. With the few channels of an image it would be much slower.
    """
    n, c, h, w = x.shape
    wide = unfolded_channels(c)
    y = torch.empty((n, h, w, wide), dtype=torch.bfloat16, device=x.device)
    _unfold[triton.cdiv(n * h * w, _ROWS),](
        x, y, n * h * w, c, h, w, *x.stride(), wide, triton.next_power_of_2(wide), _ROWS, num_warps=4
    )
    return y.permute(0, 3, 1, 2)


def cast(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """Copy tensors to others of the same layout and another type, all in one go: most are too small to fill a GPU."""
    firsts = [0]
    for source, target in zip(sources, targets, strict=True):
        if source.stride() != target.stride():
            raise ValueError("tensors of different layouts cannot be cast in one go")
        firsts.append(firsts[-1] + triton.cdiv(source.numel(), _ELEMENTS))
    sizes = tuple(source.numel() for source in sources)
    _cast[firsts[-1],](tuple(sources), tuple(targets), sizes, tuple(firsts), _ELEMENTS, num_warps=4)


def statistics(x: Tensor, conv: nn.Conv2d, norm: nn.BatchNorm2d, room: Workspace) -> tuple[Tensor, Tensor]:
    """Mean and 1 / std of each channel of a convolution's output; moves the running statistics on."""
    C = x.shape[1]
    rows = x.numel() // C
    block = min(C, _CHANNELS_OF_SUMS)
    mean, rstd = torch.empty(2, C, device=x.device)
    programs = _programs(rows, _ROWS_OF_SUMS)
    _statistics[programs, C // block](
        x, room.parts, room.count, mean, rstd, norm.running_mean, norm.running_var, conv.bias, rows, norm.eps,
        norm.momentum, C, _ROWS_OF_SUMS, block, programs, _AT_ONCE, num_warps=4,
    )  # fmt: skip
    return mean, rstd


def running_statistics(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Mean and 1 / std as evaluation uses them, for the output of a convolution without its bias."""
    return norm.running_mean - conv.bias, (norm.running_var + norm.eps).rsqrt()


def normalise(
    x: Tensor, mean: Tensor, rstd: Tensor, gamma: Tensor, beta: Tensor, slope: float, pool: bool, drop: Tensor | None
) -> Tensor:
    """Batch norm and LeakyReLU with given statistics, then the pool and the dropout where asked for."""
    n, C, H, W = x.shape
    block = min(C, _CHANNELS)
    y = torch.empty(
        (n, C, H // 2, W // 2) if pool else x.shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last
    )
    rows = y.numel() // C
    if pool:
        BR = _ROWS // 2
        _forward_pool[triton.cdiv(rows, BR), C // block](
            x, y, x if drop is None else drop, mean, rstd, gamma, beta, rows, H, W, slope,
            drop is not None, C, BR, block, num_warps=4,
        )  # fmt: skip
    else:
        _forward[triton.cdiv(rows, _ROWS), C // block](
            x, y, mean, rstd, gamma, beta, rows, slope, C, _ROWS, block, num_warps=4
        )
    return y


def gradient(
    x: Tensor,
    dy: Tensor,
    mean: Tensor,
    rstd: Tensor,
    gamma: Tensor,
    beta: Tensor,
    slope: float,
    pool: bool,
    drop: Tensor | None,
    room: Workspace,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `normalise` after `statistics`: for x, gamma and beta."""
    _, C, H, W = x.shape
    dx, (dgamma, dbeta) = torch.empty_like(x), torch.empty(2, C, device=x.device)
    rows = dy.numel() // C
    block, wide = min(C, _CHANNELS_OF_SUMS), min(C, _CHANNELS)
    if pool:
        mask, dropped, BR = x if drop is None else drop, drop is not None, _ROWS // 2
        programs = _programs(rows, _ROWS_OF_SUMS // 2)
        _backward_sums_pool[programs, C // block](
            x, dy, mask, room.parts, room.count, dgamma, dbeta, mean, rstd, gamma, beta, rows, H, W, slope,
            dropped, C, _ROWS_OF_SUMS // 2, block, programs, _AT_ONCE, num_warps=4,
        )  # fmt: skip
        _backward_pool[triton.cdiv(rows, BR), C // wide](
            x, dy, mask, dx, dgamma, dbeta, mean, rstd, gamma, beta, rows, H, W, slope,
            dropped, C, BR, wide, num_warps=4,
        )  # fmt: skip
    else:
        programs = _programs(rows, _ROWS_OF_SUMS)
        _backward_sums[programs, C // block](
            x, dy, room.parts, room.count, dgamma, dbeta, mean, rstd, gamma, beta, rows, slope,
            C, _ROWS_OF_SUMS, block, programs, _AT_ONCE, num_warps=4,
        )  # fmt: skip
        _backward[triton.cdiv(rows, _ROWS), C // wide](
            x, dy, dx, dgamma, dbeta, mean, rstd, gamma, beta, rows, slope, C, _ROWS, wide, num_warps=4
        )
    return dx, dgamma, dbeta
