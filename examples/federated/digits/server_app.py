"""An ordinary Flower server whose strategy is wrapped in an auditor."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import model
from recondite.federated import AuditingStrategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains, and writes to ``audit`` what this server could have seen."""
    config = context.run_config
    net = model()
    strategy = AuditingStrategy(
        FedAvg(fraction_evaluate=0.0),
        model=net,
        shape=(1, 8, 8),
        learning_rate=config["learning-rate"],
        batch_size=config["batch-size"],
        time_limit=20,
        out="audit",
    )
    strategy.start(grid, ArrayRecord(net.state_dict()), num_rounds=config["rounds"])
    strategy.finish()
