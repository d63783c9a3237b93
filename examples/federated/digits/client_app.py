"""An ordinary Flower client. The defence is the line with ``defend``."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import recondite as rc
from digits.task import loader, model, read
from recondite.federated import Budget, defend

app = ClientApp(
    mods=[defend(rc.VonMisesFisher(kappa=500), max_norm=0.1, budget=Budget(information=200))]
)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One local step of SGD."""
    config, node = context.run_config, context.node_config
    net = read(model(), message.content["arrays"])
    batches = loader(node["partition-id"], node["num-partitions"], config["batch-size"])
    images, labels = next(iter(batches))
    loss = torch.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    torch.optim.SGD(net.parameters(), lr=config["learning-rate"]).step()
    metrics = MetricRecord({"num-examples": len(batches.dataset), "loss": loss.item()})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
