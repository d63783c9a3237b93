"""Triton kernels that make noise in registers: it is used, made again if need be, never stored.

A counter-based generator (Philox 4x32 with ten rounds; Salmon et al., 2011) gives the same numbers
for the same counter, so the two passes that a von Mises-Fisher draw needs each make its noise. A
vector is cut into chunks that lie in one block; sums over chunks are float64.

A call's key and nonce are arguments, and so are t, s of a single draw t·x + s·w; those of several
rows or blocks lie on the device (``pairs``). Nothing is read back.

Only :mod:`recondite.numerics.device_noise` calls these. Without Triton they are plain functions
that nobody calls.
"""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # there is a path in plain PyTorch
    triton = tl = None

__all__ = [
    "COLUMNS",
    "QUARTER",
    "TILE",
    "add_gaussian",
    "combine",
    "moments",
    "row_squares",
    "sum_rows",
]

# A counter makes four numbers; those of a tile lie a quarter of it apart, so that every load is of
# neighbours. Which number belongs to which coordinate is the same in all passes.
QUARTER = 256
TILE = 4 * QUARTER
# Numbers of a chunk in its table: start, end, first counter, block, the block's first chunk and
# its number of chunks.
COLUMNS = 6


# Arguments that change at every call: a kernel for each kind of value would be compiled.
_CHANGING = {"key", "nonce", "t", "s"}


def _jit(function: Any) -> Any:
    if triton is None:
        return function
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return triton.jit(function, do_not_specialize=[name for name in names if name in _CHANGING])


@_jit
def _pair(bits, turn):  # type: ignore[no-untyped-def]
    """Two standard normal numbers of 64 random bits, by the transform of Box and Muller.

    The angle lies in an eighth of a turn either way, and the last two bits put it into one of the
    four quarters; sine and cosine are series there. Logarithms near 0 are series too: a small
    difference of nearly equal numbers would have few digits.
    """
    near = bits >= 0xFC000000
    part = (tl.where(near, bits ^ 0xFFFFFFFF, bits).to(tl.float32) + 0.5) * 2.3283064365386963e-10
    series = part * (1.0 + part * (0.5 + part * (0.33333333 + part * 0.25)))
    radius = tl.sqrt(2.0 * tl.where(near, series, -tl.log(part)))
    radius = tl.where((turn & 2) != 0, -radius, radius)
    angle = (turn & 0xFFFFFFFC).to(tl.int32, bitcast=True).to(tl.float32) * 3.6572951e-10
    square = angle * angle
    sine = 1.0 + square * (
        -0.16666667 + square * (0.0083333333 + square * (-0.00019841270 + square * 2.7557319e-6))
    )
    sine = angle * sine
    cosine = 1.0 + square * (
        -0.5 + square * (0.041666667 + square * (-0.0013888889 + square * 2.4801587e-5))
    )
    swap = (turn & 1) != 0
    return radius * tl.where(swap, sine, cosine), radius * tl.where(swap, cosine, sine)


@_jit
def _normals(key, nonce, counter, row):  # type: ignore[no-untyped-def]
    """Four standard normal numbers for every counter."""
    nonce = nonce.to(tl.uint64)
    high = (nonce >> 32).to(tl.uint32)
    low = (nonce & 0xFFFFFFFF).to(tl.uint32)
    a, b, c, d = tl.philox(key, counter, row + counter * 0, low + counter * 0, high + counter * 0)
    first, second = _pair(a, b)
    third, fourth = _pair(c, d)
    return first, second, third, fourth


@_jit
def add_gaussian(  # type: ignore[no-untyped-def]
    x, out, key: tl.uint64, nonce: tl.uint64, size, std, QUARTER: tl.constexpr
):
    """Adds noise: out = x + std·z."""
    tile = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, QUARTER)
    counter = (tile * QUARTER + lane).to(tl.uint32)
    zero = (tile * 0).to(tl.uint32)
    drawn = _normals(key, nonce, counter, zero)
    place = tile * (4 * QUARTER) + lane
    for part in tl.static_range(4):
        at = place + part * QUARTER
        inside = at < size
        value = tl.load(x + at, mask=inside, other=0.0)
        tl.store(out + at, value + std * drawn[part], mask=inside)


@_jit
def moments(  # type: ignore[no-untyped-def]
    x,
    partial,
    key: tl.uint64,
    nonce: tl.uint64,
    chunks,
    count,
    dim,
    COLUMNS: tl.constexpr,
    QUARTER: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Partial sums of x², z² and x·z over one chunk of one row, in float64.

    Eight products of noise at a time are added in single precision unless ``WIDE``: their rounding
    averages out over hundreds of coordinates. Squares of x may be too small or large for that.
    """
    chunk = tl.program_id(0).to(tl.int64) % count
    row = tl.program_id(0).to(tl.int64) // count
    start = tl.load(chunks + chunk * COLUMNS)
    end = tl.load(chunks + chunk * COLUMNS + 1)
    first = tl.load(chunks + chunk * COLUMNS + 2)
    lane = tl.arange(0, QUARTER)
    own = tl.zeros((QUARTER,), tl.float64)
    noise = tl.zeros((QUARTER,), tl.float64)
    both = tl.zeros((QUARTER,), tl.float64)
    begin = start
    while begin < end:  # Triton's interpreter has no ranges of numbers that were loaded
        counter = (first + (begin - start) // 4 + lane).to(tl.uint32)
        drawn = _normals(key, nonce, counter, row.to(tl.uint32))
        if WIDE:
            for part in tl.static_range(4):
                at = begin + part * QUARTER + lane
                value = tl.load(x + row * dim + at, mask=at < end, other=0.0).to(tl.float64)
                z = tl.where(at < end, drawn[part], 0.0).to(tl.float64)
                own += value * value
                noise += z * z
                both += value * z
        else:
            squares = tl.zeros((QUARTER,), tl.float32)
            products = tl.zeros((QUARTER,), tl.float32)
            for part in tl.static_range(4):
                at = begin + part * QUARTER + lane
                value = tl.load(x + row * dim + at, mask=at < end, other=0.0)
                z = tl.where(at < end, drawn[part], 0.0)
                wide = value.to(tl.float64)
                own += wide * wide
                squares += z * z
                products += value * z
            noise += squares.to(tl.float64)
            both += products.to(tl.float64)
        begin += 4 * QUARTER
    place = partial + (row * count + chunk) * 3
    tl.store(place, tl.sum(own))
    tl.store(place + 1, tl.sum(noise))
    tl.store(place + 2, tl.sum(both))


@_jit
def _factors(  # type: ignore[no-untyped-def]
    partial,
    pairs,
    t,
    s,
    chunks,
    row,
    chunk,
    count,
    blocks,
    COLUMNS: tl.constexpr,
    QUARTER: tl.constexpr,
):
    """What a draw multiplies its noise and its row with.

    The row's factor comes as two, of which the first is a power of two: a row whose norm single
    precision can hardly hold has its direction all the same. A zero row gets a uniform direction.
    """
    block = tl.load(chunks + chunk * COLUMNS + 3)
    start = tl.load(chunks + chunk * COLUMNS + 4)
    many = tl.load(chunks + chunk * COLUMNS + 5)
    lane = tl.arange(0, QUARTER)
    xx = tl.zeros((QUARTER,), tl.float64)
    zz = tl.zeros((QUARTER,), tl.float64)
    xz = tl.zeros((QUARTER,), tl.float64)
    begin = many * 0
    while begin < many:
        inside = begin + lane < many
        place = partial + (row * count + start + begin + lane) * 3
        xx += tl.load(place, mask=inside, other=0.0)
        zz += tl.load(place + 1, mask=inside, other=0.0)
        xz += tl.load(place + 2, mask=inside, other=0.0)
        begin += QUARTER
    squared, length, along = tl.sum(xx), tl.sum(zz), tl.sum(xz)
    if pairs is not None:
        t = tl.load(pairs + 2 * (row * blocks + block))
        s = tl.load(pairs + 2 * (row * blocks + block) + 1)
    empty = squared == 0.0
    safe = tl.where(empty, squared + 1.0, squared)
    norm = tl.sqrt(safe)
    along = along / norm
    # Rounding may leave less than nothing where noise is all but parallel to a short row.
    tangent = tl.sqrt(tl.maximum(length - along * along, 1e-24 * length))
    on_noise = tl.where(empty, tl.sqrt(t * t + s * s) / tl.sqrt(length), s / tangent)
    on_row = tl.where(empty, 0.0, (t - s * along / tangent) / norm)
    exponent = norm.to(tl.int64, bitcast=True) & 0x7FF0000000000000
    power = 1.0 / exponent.to(tl.float64, bitcast=True)
    power = tl.minimum(tl.maximum(power, 1.1754943508222875e-38), 8.507059173023462e37)
    return on_noise, power, on_row / power


@_jit
def _drawn(value, z, on_noise, power, on_row, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """One coordinate of a draw; in float64 where noise may have to cancel."""
    if WIDE:
        wide = value.to(tl.float64) * (power * on_row) + z.to(tl.float64) * on_noise
        return wide.to(tl.float32)
    scaled = value * power.to(tl.float32)
    return scaled * on_row.to(tl.float32) + z * on_noise.to(tl.float32)


@_jit
def combine(  # type: ignore[no-untyped-def]
    x,
    out,
    partial,
    key: tl.uint64,
    nonce: tl.uint64,
    pairs,
    t: tl.float64,
    s: tl.float64,
    chunks,
    count,
    blocks,
    dim,
    COLUMNS: tl.constexpr,
    QUARTER: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The draws themselves, one chunk of one row."""
    chunk = tl.program_id(0).to(tl.int64) % count
    row = tl.program_id(0).to(tl.int64) // count
    on_noise, power, on_row = _factors(
        partial, pairs, t, s, chunks, row, chunk, count, blocks, COLUMNS, QUARTER
    )
    start = tl.load(chunks + chunk * COLUMNS)
    end = tl.load(chunks + chunk * COLUMNS + 1)
    first = tl.load(chunks + chunk * COLUMNS + 2)
    lane = tl.arange(0, QUARTER)
    begin = start
    while begin < end:
        counter = (first + (begin - start) // 4 + lane).to(tl.uint32)
        drawn = _normals(key, nonce, counter, row.to(tl.uint32))
        for part in tl.static_range(4):
            at = begin + part * QUARTER + lane
            inside = at < end
            value = tl.load(x + row * dim + at, mask=inside, other=0.0)
            made = _drawn(value, drawn[part], on_noise, power, on_row, WIDE)
            tl.store(out + row * dim + at, made, mask=inside)
        begin += 4 * QUARTER


@_jit
def sum_rows(  # type: ignore[no-untyped-def]
    x,
    out,
    partial,
    key: tl.uint64,
    nonce: tl.uint64,
    pairs,
    t: tl.float64,
    s: tl.float64,
    chunks,
    count,
    blocks,
    dim,
    rows,
    several,
    COLUMNS: tl.constexpr,
    QUARTER: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Sums of the draws of ``several`` rows, one chunk of at most a tile."""
    chunk = tl.program_id(0).to(tl.int64) % count
    part_of_rows = tl.program_id(0).to(tl.int64) // count
    start = tl.load(chunks + chunk * COLUMNS)
    end = tl.load(chunks + chunk * COLUMNS + 1)
    first = tl.load(chunks + chunk * COLUMNS + 2)
    lane = tl.arange(0, QUARTER)
    counter = (first + lane).to(tl.uint32)
    at = start + lane
    one = tl.zeros((QUARTER,), tl.float32)
    two = tl.zeros((QUARTER,), tl.float32)
    three = tl.zeros((QUARTER,), tl.float32)
    four = tl.zeros((QUARTER,), tl.float32)
    row = part_of_rows * several
    last = tl.minimum(row + several, rows)
    while row < last:
        on_noise, power, on_row = _factors(
            partial, pairs, t, s, chunks, row, chunk, count, blocks, COLUMNS, QUARTER
        )
        a, b, c, d = _normals(key, nonce, counter, row.to(tl.uint32))
        line = x + row * dim + at
        value = tl.load(line, mask=at < end, other=0.0)
        one += _drawn(value, a, on_noise, power, on_row, WIDE)
        value = tl.load(line + QUARTER, mask=at + QUARTER < end, other=0.0)
        two += _drawn(value, b, on_noise, power, on_row, WIDE)
        value = tl.load(line + 2 * QUARTER, mask=at + 2 * QUARTER < end, other=0.0)
        three += _drawn(value, c, on_noise, power, on_row, WIDE)
        value = tl.load(line + 3 * QUARTER, mask=at + 3 * QUARTER < end, other=0.0)
        four += _drawn(value, d, on_noise, power, on_row, WIDE)
        row += 1
    place = out + part_of_rows * dim + at
    tl.store(place, one, mask=at < end)
    tl.store(place + QUARTER, two, mask=at + QUARTER < end)
    tl.store(place + 2 * QUARTER, three, mask=at + 2 * QUARTER < end)
    tl.store(place + 3 * QUARTER, four, mask=at + 3 * QUARTER < end)


@_jit
def row_squares(  # type: ignore[no-untyped-def]
    x, out, stride, dim, pieces, length, WIDTH: tl.constexpr
):
    """Squared norms of pieces of rows, exact squares added in float64."""
    row = tl.program_id(0).to(tl.int64) // pieces
    piece = tl.program_id(0).to(tl.int64) % pieces
    lane = tl.arange(0, WIDTH)
    begin = piece * length
    end = tl.minimum(begin + length, dim)
    total = tl.zeros((WIDTH,), tl.float64)
    while begin < end:
        at = begin + lane
        value = tl.load(x + row * stride + at, mask=at < end, other=0.0).to(tl.float64)
        total += value * value
        begin += WIDTH
    tl.store(out + row * pieces + piece, tl.sum(total))
