"""Patches of a convolution: torch's own unfold says the same, value and derivatives."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from recondite.gradients.patches import patches

PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    sizes=st.tuples(*[st.integers(1, 3)] * 2, *[st.integers(5, 8)] * 2),
    kernel=PAIR,
    dilation=st.tuples(*[st.integers(1, 2)] * 2),
    padding=st.tuples(*[st.integers(0, 2)] * 2),
    stride=PAIR,
    channels_last=st.booleans(),
    skipped=st.integers(0, 1),
)
def test_patches_are_those_of_unfold(
    sizes, kernel, dilation, padding, stride, channels_last, skipped
):
    window = kernel, dilation, padding, stride
    whole = torch.randn(sizes[0] + skipped, *sizes[1:], dtype=torch.float64)
    if channels_last:
        whole = whole.contiguous(memory_format=torch.channels_last)
    one = whole[skipped:].detach().requires_grad_()
    other = whole[skipped:].detach().requires_grad_()
    mine, wanted = patches(one, *window), functional.unfold(other, *window)
    assert torch.equal(mine, wanted)
    slopes = torch.randn_like(mine)
    (left,) = torch.autograd.grad((mine.square() * slopes).sum(), one)
    (right,) = torch.autograd.grad((wanted.square() * slopes).sum(), other)
    torch.testing.assert_close(left, right)


def test_patches_can_be_differentiated_twice():
    images = torch.randn(2, 2, 4, 5, dtype=torch.float64, requires_grad=True)

    def curved(x):
        return patches(x, (2, 3), (1, 1), (1, 0), (2, 1)).pow(3)

    assert torch.autograd.gradgradcheck(curved, (images,))
