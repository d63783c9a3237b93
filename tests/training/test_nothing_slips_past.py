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
        if self.training and self.how == "data":
            self.last.data.copy_(x.detach().mean(0))
        if self.training and self.how == "assign":
            self.last = x.detach().mean(0)
        return x


class Keeping(nn.Module):
    """Tanh that keeps what a function makes of its input, in plain attributes."""

    def __init__(self, keep):
        super().__init__()
        self.keep, self.kept, self.calls = keep, [], 0

    def forward(self, x):
        self.calls += 1
        self.keep(self, x)
        return torch.tanh(x)

    def get_extra_state(self):
        return self.kept

    def set_extra_state(self, state):
        self.kept = state


def keep_in_an_attribute(layer, x):
    layer.kept = x.detach()


def keep_with_a_graph(layer, x):
    layer.kept = x.mean(0)


def keep_a_number(layer, x):
    layer.largest = float(x.detach().amax())


def keep_in_a_list(layer, x):
    layer.kept.append(x.detach().numpy().copy())


def keep_in_training_only(layer, x):
    if layer.training:
        layer.seen = {"batch": (x.detach(),)}


def keep_nothing_of_the_data(layer, x):
    layer.positions = torch.arange(x.shape[1])  # as caches of rotary positions are
    layer.mask = torch.ones(x.shape[1], x.shape[1]).tril()
    layer.kept.append(layer.calls)
    layer.noise = torch.rand(3)
    layer.scratch = x
    del layer.scratch


class Run:
    """A classifier whose first layer is frozen, private under Gaussian noise."""

    def __init__(
        self, engine=None, storing=None, alone=False, keeping=None, rows=ROWS, data=None, **options
    ):
        torch.manual_seed(2)
        self.net = nn.Sequential(
            nn.Linear(6, 5), Storing(storing), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)
        )
        if keeping is not None:
            self.net[3] = Keeping(keeping)
        self.net[0].requires_grad_(False)
        held = [p for p in self.net.parameters() if p.requires_grad or not alone]
        self.optimizer = torch.optim.SGD(held, lr=LR)
        self.data = data or TensorDataset(torch.randn(rows, 6), torch.arange(rows) % 3)
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


# Records kept from an earlier batch


@refused
def the_first_batch_at_every_step(_):
    run, kept = Run(rows=400), None
    for batch in run.loader:
        kept = kept or tuple(part.clone() for part in batch)
        run.step(kept)


@refused
def the_first_batch_written_into_every_other(_):
    run, kept = Run(rows=400, batch_size=32), None
    for batch in run.loader:
        kept = kept or tuple(part.clone() for part in batch)
        for part, other in zip(batch, kept, strict=True):
            part.copy_(other)
        run.step(batch)


@refused
def kept_records_normalised_and_shuffled(_):
    run, kept = Run(rows=1000, batch_size=32), None
    for batch in run.loader:
        kept = kept or batch
        order = torch.randperm(32)
        run.step(((kept[0][order] - 0.5) / 0.25, kept[1][order]))


@refused
def kept_pieces_within_a_batch(_):
    run, kept = Run(rows=400, batch_size=32, physical_batch_size=8), None
    for batch in run.loader:
        kept = kept or batch
        run.step(kept)


@refused
def most_of_a_batch_kept_in_a_later_epoch(_):
    run, kept = Run(rows=400, batch_size=32), None
    for epoch in range(2):
        for inputs, labels in run.loader:
            kept = inputs[:28].clone() if kept is None else kept
            used = torch.cat([kept, inputs[28:]]) if epoch else inputs
            run.step((used, labels))


@refused
def the_same_rows_beside_every_batch(_):
    run = Run(rows=400)
    anchor = torch.randn(BATCH, 6)
    for inputs, labels in run.loader:
        run.optimizer.zero_grad()
        (cross_entropy(run.net(inputs), labels) + cross_entropy(run.net(anchor), labels)).backward()
        run.optimizer.step()


@harmless
def epochs_over_the_same_records(_):
    run = Run(rows=48, batch_size=16, sampling="shuffled")
    for _ in range(4):
        for batch in run.loader:
            run.step(batch)
    run.check()


@harmless
def all_records_at_every_step(_):
    run = Run(batch_size=ROWS)
    for _ in range(3):
        run.step()
    run.check()


@harmless
def records_of_few_kinds(_):
    kinds = torch.randn(9, 6)
    data = TensorDataset(kinds[torch.arange(360) % 9], torch.arange(360) % 3)
    run = Run(data=data)
    for _ in range(4):
        for inputs, labels in run.loader:
            run.step((inputs * 2 + 1, labels))
    run.check()


@harmless
def augmented_and_normalised_batches(_):
    run = Run(rows=80)
    for _ in range(2):
        for inputs, labels in run.loader:
            flipped = torch.where(torch.rand(len(inputs), 1) < 0.5, inputs, inputs.flip(1))
            run.step(((flipped - flipped.mean()) / 3 + 0.01 * torch.randn(6), labels))
    run.check()


@harmless
def records_in_another_order_and_precision(_):
    run = Run(rows=80)
    for _ in range(3):
        for inputs, labels in run.loader:
            order = torch.randperm(len(inputs))
            run.step((inputs.double().float()[order], labels[order]))
    run.check()


@harmless
def two_passes_over_the_batch_in_hand(_):
    run = Run(rows=80, loss_reduction="per-record")
    for _ in range(2):
        for inputs, labels in run.loader:
            run.optimizer.zero_grad()
            first, second = run.net(inputs), run.net(inputs + 0.1 * torch.randn_like(inputs))
            (cross_entropy(first, labels) + cross_entropy(second, labels)).backward()
            run.optimizer.step()
    run.check()


@harmless
def batches_in_pieces(_):
    run = Run(rows=80, batch_size=32, physical_batch_size=8)
    for _ in range(2):
        for batch in run.loader:
            run.step(batch)
    run.check()


@harmless
def batches_of_random_size(_):
    run = Run(rows=80, sampling="poisson")
    for _ in range(3):
        for batch in run.loader:
            run.step(batch)
    run.check()


@harmless
def validation_between_steps(_):
    run, held_out = Run(rows=80), (torch.randn(16, 6), torch.arange(16) % 3)
    for batch in run.loader:
        run.step(batch)
        run.net.eval()
        with torch.no_grad():
            cross_entropy(run.net(held_out[0]), held_out[1])
        run.net.train()
        with torch.no_grad():
            run.net(held_out[0])
    run.check()


# What layers keep


@refused
def a_layer_that_keeps_its_input(_):
    Run(keeping=keep_in_an_attribute).step()


@refused
def a_layer_that_keeps_a_mean_with_its_graph(_):
    Run(keeping=keep_with_a_graph).step()


@refused
def a_layer_that_keeps_a_number(_):
    Run(keeping=keep_a_number).step()


@refused
def a_layer_that_keeps_a_list_which_its_state_has(_):
    Run(keeping=keep_in_a_list).step()


@refused
def a_layer_that_keeps_in_training_only(_):
    Run(keeping=keep_in_training_only).step()


@refused
def a_buffer_written_past_its_version(_):
    Run(storing="data").step()


@harmless
def a_layer_that_keeps_positions_counts_and_noise(_):
    run = Run(keeping=keep_nothing_of_the_data)
    run.step()
    run.step()
    assert run.net[3].kept[0] >= 1
    run.check()


# Weights that are written past their version counters


@refused
def weights_written_as_data_before_the_step(_):
    run = Run()
    inputs, labels = next(iter(run.loader))
    run.backward((inputs, labels))
    run.net[2].weight.data.add_(inputs.mean())
    run.optimizer.step()


@refused
def weights_written_as_data_between_steps(_):
    run = Run()
    for inputs, labels in run.loader:
        run.step((inputs, labels))
        run.net[2].bias.data[1] += inputs.mean()


@refused
def weights_given_other_data(_):
    run = Run()
    for batch in run.loader:
        run.step(batch)
        run.net[4].weight.data = run.net[4].weight.data + 1.0


@refused
def weights_written_between_steps(_):
    run = Run()
    for batch in run.loader:
        run.step(batch)
        add_to(run.net[2].weight)


@refused
def one_bit_of_a_weight(run):
    for batch in run.loader:
        run.step(batch)
        bits = run.net[2].weight.data.view(-1).view(torch.int32)
        bits[3] ^= 1


@refused
def frozen_weights_written_as_data(_):
    run = Run(rows=400)
    for inputs, labels in run.loader:
        run.step((inputs, labels))
        run.net[0].bias.data.copy_(inputs.mean(0)[:5])


@harmless
def averages_of_the_weights_kept_outside(_):
    run = Run(rows=80)
    average = torch.optim.swa_utils.AveragedModel(
        run.net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    for batch in run.loader:
        run.step(batch)
        average.update_parameters(run.net)
    run.check()


@harmless
def weights_swapped_for_an_average_and_back(_):
    run = Run(rows=80)
    for batch in run.loader:
        run.step(batch)
        held = [p.detach().clone() for p in run.released]
        for parameter, value in zip(run.released, held, strict=True):
            parameter.data.mul_(0.5)
            parameter.data.copy_(value)
    run.check()


@harmless
def weights_given_other_memory_with_the_same_numbers(_):
    run = Run(rows=80)
    for batch in run.loader:
        run.step(batch)
        run.net[4].weight.data = run.net[4].weight.data.clone()
    run.check()


def test_weights_may_be_projected_in_a_hook_after_the_update():
    run = Run(rows=80)
    run.optimizer.register_step_post_hook(lambda *_: run.net[2].weight.data.clamp_(-0.1, 0.1))
    for batch in run.loader:
        run.step(batch)
    assert run.net[2].weight.abs().max() <= 0.1


def test_batches_of_names_pass_and_kept_ones_do_not():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(50, 4), nn.Linear(4, 2)

        def forward(self, input_ids, attention_mask, labels=None):
            held = (self.embed(input_ids) * attention_mask[..., None]).sum(1)
            return self.out(held)

    rows = [
        {"input_ids": torch.randint(50, (7,)), "attention_mask": torch.ones(7), "labels": k % 2}
        for k in range(80)
    ]

    def train(keep):
        net, kept = Named(), None
        optimizer = torch.optim.SGD(net.parameters(), lr=LR)
        _, _, loader = PrivacyEngine().make_private(
            module=net,
            optimizer=optimizer,
            data_loader=DataLoader(rows, batch_size=BATCH),
            mechanism=rc.Gaussian(1.0),
            sampling="fixed-size",
        )
        for _ in range(2):
            for batch in loader:
                kept = kept if keep and kept is not None else dict(batch)
                optimizer.zero_grad()
                cross_entropy(net(**kept), kept["labels"]).backward()
                optimizer.step()

    train(keep=False)
    with pytest.raises(ValueError, match="those of an earlier batch"):
        train(keep=True)


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
