"""Ways to have a private run do something else than what is accounted.

Each is one function that does one thing to a run. Either it is refused, in one line, or the weights
moved by exactly what the mechanism released. The latter holds where it was refused, too.
"""

import copy
import io
from types import MethodType

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.training import BudgetSpentError, PrivacyEngine, PrivateLoader

torch.set_num_threads(1)
LR, ROWS, BATCH = 0.5, 40, 8


def spying(released):
    """A mechanism that remembers what it released, in units of one record's bound."""

    class Spy(rc.Gaussian):
        def perturb(self, gradient, generator=None):
            release = super().perturb(gradient, generator)
            released.append(release.clone())
            return release

    return Spy(1.0)


class Storing(nn.Module):
    """Keeps the mean of the last batch in a buffer, in place or as a new tensor."""

    def __init__(self, how=None):
        super().__init__()
        self.how = how
        self.register_buffer("last", torch.zeros(5))

    def forward(self, x):
        if self.training and self.how == "write":
            self.last.copy_(x.detach().mean(0))
        if self.training and self.how == "assign":
            self.last = x.detach().mean(0)
        return x


class Run:
    """A classifier whose first layer is frozen, private under Gaussian noise."""

    def __init__(self, engine=None, storing=None, alone=False, **options):
        torch.manual_seed(2)
        self.net = nn.Sequential(
            nn.Linear(6, 5), Storing(storing), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)
        )
        self.net[0].requires_grad_(False)
        held = [p for p in self.net.parameters() if p.requires_grad or not alone]
        self.optimizer = torch.optim.SGD(held, lr=LR)
        self.data = TensorDataset(torch.randn(ROWS, 6), torch.arange(ROWS) % 3)
        self.engine = engine or PrivacyEngine()
        self.spied = []
        options = {"sampling": "fixed-size", "mechanism": spying(self.spied), **options}
        _, _, self.loader = self.engine.make_private(
            module=self.net,
            optimizer=self.optimizer,
            data_loader=DataLoader(self.data, batch_size=BATCH),
            **options,
        )
        self.released = [p for p in self.net.parameters() if p.requires_grad]
        self.others = [p for p in self.net.parameters() if not p.requires_grad]
        self.before = [flat(self.released), flat(self.others)]

    def backward(self, batch, loss=cross_entropy):
        self.optimizer.zero_grad()
        inputs, labels = batch
        loss(self.net(inputs), labels).backward()

    def step(self, batch=None, loss=cross_entropy):
        self.backward(batch or next(iter(self.loader)), loss)
        self.optimizer.step()

    def check(self, kept_back=0):
        used = self.spied[: len(self.spied) - kept_back]
        moves = [self.engine.units.released(each, self.engine.mechanism) for each in used]
        expected = self.before[0] - LR * sum(moves, torch.zeros(()))
        assert torch.allclose(flat(self.released).float(), expected, atol=1e-6)
        assert torch.equal(flat(self.others).float(), self.before[1])
        assert len(self.spied) <= self.engine.steps


def flat(parameters):
    return torch.cat([p.detach().reshape(-1).clone() for p in parameters])


def add_to(tensor, value=1.0):
    with torch.no_grad():
        tensor.add_(value)


REFUSED, HARMLESS = {}, {}


def refused(way):
    REFUSED[way.__name__] = way
    return way


def harmless(way):
    HARMLESS[way.__name__] = way
    return way


# What the optimizer holds


@refused
def unfreeze_a_layer(run):
    run.step()
    run.net[0].requires_grad_(True)
    run.step()


@refused
def unfreeze_one_bias(run):
    run.net[0].bias.requires_grad_(True)
    run.step()


@refused
def unfreeze_between_backward_and_step(run):
    run.backward(next(iter(run.loader)))
    run.net[0].requires_grad_(True)
    run.optimizer.step()


@refused
def freeze_a_released_parameter(run):
    run.net[4].bias.requires_grad_(False)
    run.step()


@refused
def add_a_stranger_to_the_optimizer(run):
    run.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    run.step()


@refused
def unfreeze_and_add_to_the_optimizer(_):
    run = Run(alone=True)
    run.net[0].requires_grad_(True)
    run.optimizer.add_param_group({"params": list(run.net[0].parameters())})
    run.step()


@refused
def append_to_a_group(run):
    run.optimizer.param_groups[0]["params"].append(nn.Parameter(torch.zeros(3)))
    run.step()


@refused
def remove_from_a_group(run):
    run.optimizer.param_groups[0]["params"].pop()
    run.step()


@refused
def copies_in_the_optimizer(run):
    group = run.optimizer.param_groups[0]
    group["params"] = [nn.Parameter(p.detach().clone()) for p in group["params"]]
    run.step()


@harmless
def optimizer_state_loaded(run):
    run.step()
    run.optimizer.load_state_dict(copy.deepcopy(run.optimizer.state_dict()))
    run.step()


@harmless
def a_new_optimizer_over_the_same_parameters(run):
    other = torch.optim.SGD(run.released, lr=LR)
    run.backward(next(iter(run.loader)))
    other.step()


@harmless
def the_step_of_the_class(run):
    run.backward(next(iter(run.loader)))
    type(run.optimizer).step(run.optimizer)


@refused
def a_copied_optimizer(run):
    copy.deepcopy(run.optimizer)


@refused
def a_saved_optimizer(run):
    torch.save(run.optimizer, io.BytesIO())


# Gradients and weights


@refused
def gradient_of_a_frozen_parameter_by_hand(run):
    run.backward(next(iter(run.loader)))
    run.net[0].weight.grad = torch.ones_like(run.net[0].weight)
    run.optimizer.step()


@harmless
def gradients_by_hand(run):
    run.backward(next(iter(run.loader)))
    for parameter in run.released:
        parameter.grad = torch.full_like(parameter, 7.0)
    run.optimizer.step()


@harmless
def gradients_zeroed_before_the_step(run):
    run.backward(next(iter(run.loader)))
    run.optimizer.zero_grad()
    run.optimizer.step()


@refused
def weights_written_before_the_step(run):
    run.backward(next(iter(run.loader)))
    with torch.no_grad():
        run.net[2].weight.mul_(1.0)
    run.optimizer.step()


@refused
def frozen_weights_written_within_an_epoch(run):
    for batch in run.loader:
        run.step(batch)
        with torch.no_grad():
            run.net[0].weight.mul_(1.0)


@refused
def another_optimizer_for_frozen_weights(run):
    for batch in run.loader:
        run.step(batch)
        run.net[0].requires_grad_(True)
        run.net[0].weight.grad = torch.zeros_like(run.net[0].weight)
        torch.optim.SGD(run.net[0].parameters(), lr=1.0).step()
        run.net[0].weight.grad = None
        run.net[0].requires_grad_(False)


@refused
def weights_loaded_between_batch_and_step(run):
    run.backward(next(iter(run.loader)))
    run.net.load_state_dict(run.net.state_dict())
    run.optimizer.step()


@refused
def weights_loaded_within_an_epoch(run):
    for batch in run.loader:
        run.step(batch)
        run.net.load_state_dict(run.net.state_dict())


@harmless
def weights_loaded_between_epochs(run):
    for _ in range(2):
        run.net.load_state_dict(run.net.state_dict())
        for batch in run.loader:
            run.step(batch)


@refused
def weights_loaded_as_new_parameters(run):
    run.net.load_state_dict(copy.deepcopy(run.net.state_dict()), assign=True)
    run.step()


@refused
def another_dtype(run):
    run.net.double()
    inputs, labels = next(iter(run.loader))
    run.step((inputs.double(), labels))


# The model


@refused
def a_swapped_layer(run):
    run.net[4] = nn.Linear(4, 3)
    run.step()


@refused
def a_layer_more(run):
    run.net.append(nn.Linear(3, 3))
    run.step()


@refused
def a_layer_swapped_for_a_copy(run):
    run.net[2] = copy.deepcopy(run.net[2])
    run.step()


@refused
def a_swapped_parameter(run):
    run.net[2].weight = nn.Parameter(run.net[2].weight.detach().clone())
    run.step()


@refused
def a_layer_without_its_bias(run):
    run.net[2].bias = None
    run.step()


@refused
def the_layers_own_forward_function(run):
    run.net[2].forward = MethodType(nn.Linear.forward, run.net[2])
    run.step()


@refused
def no_recorded_forward_function(run):
    del run.net[2].forward
    run.step()


@refused
def a_layer_that_writes_to_a_buffer(_):
    Run(storing="write").step()


@refused
def a_layer_that_assigns_a_buffer(_):
    Run(storing="assign").step()


@refused
def a_new_buffer(run):
    run.net[2].register_buffer("cache", torch.zeros(3))
    run.step()


@refused
def a_forward_hook(run):
    run.net[2].register_forward_hook(lambda layer, inputs, out: out - out.mean(0))
    run.step()


@refused
def a_forward_pre_hook(run):
    run.net[2].register_forward_pre_hook(lambda layer, inputs: inputs[0] - inputs[0].mean(0))
    run.step()


@refused
def a_backward_hook(run):
    run.net[3].register_full_backward_hook(lambda layer, into, out: (into[0] / into[0].norm(),))
    run.step()


@harmless
def a_tensor_hook_on_a_parameter(run):
    run.net[2].weight.register_hook(lambda grad: None if grad is None else grad * 100)
    run.step()


@harmless
def evaluation_mode(run):
    batch = next(iter(run.loader))
    run.net.eval()
    run.step(batch)


@harmless
def a_copy_of_the_model_trained_without_noise(run):
    batch = next(iter(run.loader))
    other = copy.deepcopy(run.net)
    plain = torch.optim.SGD([p for p in other.parameters() if p.requires_grad], lr=LR)
    cross_entropy(other(batch[0]), batch[1]).backward()
    plain.step()
    run.step(batch)


# Hooks of the optimizer


@refused
def a_hook_before_the_update(run):
    def raw(optimizer, args, kwargs):
        run.net[2].weight.grad = torch.ones_like(run.net[2].weight)

    run.optimizer.register_step_pre_hook(raw)
    run.step()


@refused
def a_hook_that_writes_into_the_gradient(run):
    run.optimizer.register_step_pre_hook(lambda *_: add_to(run.net[2].weight.grad))
    run.step()


@refused
def a_hook_that_moves_the_weights(run):
    run.optimizer.register_step_pre_hook(lambda *_: add_to(run.net[2].weight, 0.0))
    run.step()


@refused
def a_hook_of_all_optimizers(run):
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    handle = register_optimizer_step_pre_hook(lambda *_: add_to(run.net[2].weight.grad))
    try:
        run.step()
    finally:
        handle.remove()


@harmless
def hooks_of_the_optimizer_that_only_look(run):
    seen = []
    run.optimizer.register_step_pre_hook(lambda *_: seen.append(1))
    run.optimizer.register_step_post_hook(lambda *_: seen.append(2))
    run.step()
    assert seen == [1, 2]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@refused
def a_gradient_scaler(run):
    scaler = torch.amp.GradScaler("cpu")
    inputs, labels = next(iter(run.loader))
    scaler.scale(cross_entropy(run.net(inputs), labels)).backward()
    scaler.step(run.optimizer)


# Batches


@refused
def two_steps_on_one_batch(run):
    batch = next(iter(run.loader))
    run.step(batch)
    run.step(batch)


@refused
def five_steps_on_every_batch(run):
    for batch in run.loader:
        for _ in range(5):
            run.step(batch)


@refused
def the_same_gradients_again(run):
    run.step()
    run.optimizer.step()


@refused
def a_refused_step_repeated(run):
    batch = next(iter(run.loader))
    hook = run.net[2].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="hooks"):
        run.step(batch)
    hook.remove()
    run.step(batch)


@refused
def a_step_before_any_batch(run):
    run.step(run.data[:BATCH])


@refused
def batches_of_an_ordinary_loader(run):
    for batch in DataLoader(run.data, batch_size=BATCH):
        run.step(batch)


@refused
def batches_of_another_private_loader(run):
    other = PrivateLoader(DataLoader(run.data, batch_size=BATCH), sampling="fixed-size")
    for batch in other:
        run.step(batch)


@refused
def two_passes_at_once(run):
    first, second = iter(run.loader), iter(run.loader)
    run.step(next(first))
    run.step(next(second))
    run.step(next(first))


@refused
def pairs_of_batches(run):
    for batch, _ in zip(run.loader, run.loader, strict=True):
        run.step(batch)


@refused
def a_step_after_the_epoch(run):
    for batch in run.loader:
        run.step(batch)
    run.step(batch)


@refused
def the_last_batch_after_the_epoch(_):
    run = Run(batch_size=ROWS)
    (batch,) = list(run.loader)
    run.step(batch)


@refused
def gradients_of_two_batches(run):
    batches = iter(run.loader)
    for _ in range(2):
        inputs, labels = next(batches)
        cross_entropy(run.net(inputs), labels).backward()
    run.optimizer.step()


@refused
def a_batch_fetched_ahead(run):
    batches = iter(run.loader)
    batch, _ = next(batches), next(batches)
    run.step(batch)


@refused
def part_of_a_batch(run):
    inputs, labels = next(iter(run.loader))
    run.step((inputs[:3], labels[:3]))


@refused
def more_than_the_batch(run):
    next(iter(run.loader))
    run.step(run.data[: BATCH + 1])


@harmless
def epochs_broken_off(run):
    for _ in range(3):
        run.step()


@harmless
def a_batch_broken_off_between_its_pieces(_):
    run = Run(physical_batch_size=3)
    run.step()  # the first piece of three
    assert run.spied == []
    for batch in run.loader:
        run.step(batch)
    run.check()


@harmless
def a_pass_before_the_batch_was_handed_out(run):
    inputs, labels = run.data[:BATCH]
    (1e6 * cross_entropy(run.net(inputs), labels)).backward()
    batch = next(iter(run.loader))
    assert run.engine._run._collector.tape.entries == []
    run.step(batch)


@harmless
def a_closure(run):
    inputs, labels = next(iter(run.loader))

    def closure():
        run.optimizer.zero_grad()
        loss = cross_entropy(run.net(inputs), labels)
        loss.backward()
        return loss

    run.optimizer.step(closure)


@refused
def a_larger_batch_size_later(run):
    run.loader.batch_size = 20
    run.step()


@refused
def another_sampling_later(run):
    run.loader.sampling = "shuffled"
    run.step()


@refused
def fewer_records_later(run):
    run.loader.dataset = TensorDataset(*(tensor[:20] for tensor in run.data.tensors))
    run.loader.records = 20
    run.step()


@refused
def a_spent_budget(_):
    run = Run(engine=PrivacyEngine(max_epsilon=20.0, delta=1e-3))
    run.engine._run.limit.most = 2
    for batch in run.loader:
        run.step(batch)
    assert run.engine.steps == 2
    assert list(run.loader) == []
    run.step(batch)


# Other engines and processes


@refused
def a_second_engine(run):
    PrivacyEngine().make_private(
        module=run.net,
        optimizer=torch.optim.SGD(run.released, lr=LR),
        data_loader=DataLoader(run.data, batch_size=BATCH),
        mechanism=rc.Gaussian(9.0),
    )


@refused
def a_second_engine_for_a_part(run):
    PrivacyEngine().make_private(
        module=run.net[2],
        optimizer=torch.optim.SGD(run.net[2].parameters(), lr=LR),
        data_loader=DataLoader(run.data, batch_size=BATCH),
        mechanism=rc.Gaussian(9.0),
    )


@refused
def the_same_optimizer_for_another_engine(run):
    other = copy.deepcopy(run.net)
    run.optimizer.param_groups[0]["params"] = list(other.parameters())
    PrivacyEngine().make_private(
        module=other,
        optimizer=run.optimizer,
        data_loader=DataLoader(run.data, batch_size=BATCH),
        mechanism=rc.Gaussian(9.0),
    )


@refused
def the_loader_of_a_detached_engine(run):
    run.step()
    run.engine.detach()
    next(iter(run.loader))


@refused
def several_processes(run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "is_initialized", lambda: True)
        patch.setattr(torch.distributed, "get_world_size", lambda: 2)
        run.step()


@refused
def a_model_on_several_devices(run):
    other = nn.DataParallel(copy.deepcopy(run.net))
    PrivacyEngine().make_private(
        module=other,
        optimizer=torch.optim.SGD(other.parameters(), lr=LR),
        data_loader=DataLoader(run.data, batch_size=BATCH),
        mechanism=rc.Gaussian(9.0),
    )


# Losses: more of them in test_loss_check.py


@refused
def class_weights(run):
    weight = torch.tensor([1.0, 10.0, 100.0])
    run.step(loss=lambda out, labels: cross_entropy(out, labels, weight=weight))


@refused
def a_sum_for_a_mean(run):
    run.step(loss=lambda out, labels: cross_entropy(out, labels, reduction="sum"))


@refused
def an_average_of_the_kept_records(run):
    run.step(loss=lambda out, labels: cross_entropy(out, labels, ignore_index=0))


@refused
def a_normaliser_that_changes(run):
    scale = iter([1.0, 1.5])

    def loss(out, labels):
        return next(scale) * cross_entropy(out, labels)

    run.step(loss=loss)
    run.step(loss=loss)


@pytest.mark.filterwarnings("ignore:.*GradScaler.*")
@pytest.mark.parametrize("name", list(REFUSED))
def test_is_refused_in_one_line_and_moves_nothing_else(name):
    run = Run()
    with pytest.raises((ValueError, BudgetSpentError)) as caught:
        REFUSED[name](run)
    assert "\n" not in str(caught.value)
    run.check(kept_back="hook of the optimizer" in str(caught.value))


@pytest.mark.parametrize("name", list(HARMLESS))
def test_moves_the_weights_by_what_was_released(name):
    run = Run()
    HARMLESS[name](run)
    run.check()


def test_there_are_enough_ways():
    assert len(REFUSED) + len(HARMLESS) >= 40
