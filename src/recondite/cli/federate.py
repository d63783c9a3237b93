"""recondite federate: a demonstration, a real deployment, and what a client has spent."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from recondite.cli.options import DEFENCES, NETWORKS
from recondite.cli.output import figure, print_json, print_table, settings
from recondite.defences import find
from recondite.notions import figures
from recondite.notions.bounds import format_bound, round_bound
from recondite.notions.registry import built_in
from recondite.studies.shapes import Row

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(
        help="Federated learning on Flower: defended clients, an auditing server.",
        no_args_is_help=True,
    )
    group.command("demo", help=_DEMO)(demo)
    group.command("up", help=_UP)(up)
    group.command("ledger", help=_LEDGER)(ledger)
    app.add_typer(group, name="federate")


_DEMO = """Ten clients on Flower's simulation engine, with and without a defence, audited.

`recondite federate demo --rounds 2 --out federation`
"""
_UP = """One SuperLink and several SuperNodes as processes of this machine: TLS, node keys.

`recondite federate up --nodes 2 --rounds 2 --defence vmf --strength 500`
"""
_LEDGER = """What a client has released so far, from its ledger.

`recondite federate ledger federation/iid-fedsgd-vmf/ledgers/client-0`
"""

_OUT = Annotated[Path, typer.Option("--out", help="Folder for results.")]
_DATA = Annotated[str, typer.Option("--data", help="Data set: see data list.")]
_MODEL = Annotated[str, typer.Option("--model", help=f"{NETWORKS}; or package.module:function.")]
_ROUNDS = Annotated[int, typer.Option("--rounds", help="Rounds of training.")]
_BATCH = Annotated[int, typer.Option("--batch-size", help="Records of a client's round.")]
_RATE = Annotated[float, typer.Option("--lr", help="Learning rate of the clients.")]
_NORM = Annotated[float, typer.Option("--max-norm", help="Bound on an update.")]
_SEED = Annotated[int, typer.Option("--seed", help="Repeatable: a simulation. -1: none.")]
_DATA_DIR = Annotated[str, typer.Option("--data-dir", help="Where data sets are.")]
_STRENGTH = Annotated[float, typer.Option("--strength", help="Its noise parameter.")]
_CAPACITY = Annotated[float, typer.Option("--capacity", help="A channel's nats a feature.")]
_LEVEL = Annotated[
    str, typer.Option("--level", help="Noise the whole update (client) or every step (record).")
]
_SECONDS = Annotated[
    float, typer.Option("--audit-seconds", help="Time limit of one attack; 0: no auditor.")
]


def demo(
    clients: Annotated[int, typer.Option("--clients", help="How many.")] = 10,
    rounds: _ROUNDS = 2,
    partition: Annotated[str, typer.Option("--partition", help="iid, dirichlet or both.")] = "both",
    local_steps: Annotated[
        int, typer.Option("--local-steps", help="E of FedAvg; FedSGD runs too. 1: FedSGD only.")
    ] = 4,
    defence: Annotated[
        str, typer.Option("--defence", help=f"{DEFENCES} Compared with none.")
    ] = "vmf",
    strength: _STRENGTH = 500.0,
    capacity: _CAPACITY = 0.1,
    level: _LEVEL = "client",
    max_norm: _NORM = 1.0,
    data: _DATA = "mnist-5k",
    model: _MODEL = "mlp",
    batch_size: _BATCH = 4,
    learning_rate: _RATE = 0.5,
    audit_seconds: _SECONDS = 4.0,
    seed: _SEED = 0,
    data_dir: _DATA_DIR = "",
    out: _OUT = Path("federation"),
    verbose: Annotated[bool, typer.Option("--verbose", help="Flower's own log.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """The demonstration."""
    from recondite.federated.flower.simulation import federations, simulate
    from recondite.federated.settings import Settings
    from recondite.federated.shares import check_auditable

    if out.exists() and any(out.iterdir()):
        raise ValueError(f"out {out} is not empty: choose another folder")
    base = Settings(
        data=data,
        model=model,
        clients=clients,
        rounds=rounds,
        batch_size=batch_size,
        learning_rate=learning_rate,
        max_norm=max_norm,
        level=level,
        capacity=capacity,
        seed=seed,
        data_dir=data_dir,
        audit_every=int(audit_seconds > 0),
        audit_seconds=audit_seconds or 1.0,
        attack_steps=300,
    )
    if base.audit_every:
        try:
            check_auditable(base)
        except ValueError as reason:
            base = replace(base, audit_every=0)
            if not settings.quiet:
                print(f"without the auditor: {reason}", file=sys.stderr, flush=True)
    plans = federations(
        base,
        partitions=("iid", "dirichlet") if partition == "both" else (partition,),
        local_steps=(1,) if local_steps == 1 else (1, local_steps),
        defences=tuple(dict.fromkeys(("none", defence))),
        strength=strength,
        out=out.resolve(),
    )
    told = 0

    def progress(plan: Any, row: Row) -> None:
        nonlocal told
        told += 1
        if not settings.quiet:
            where = f"{plan.partition}, E = {plan.local_steps}, {plan.label}"
            total = len(plans) * (rounds + 1)
            print(f"[{told}/{total}] {where}: round {row['round']}", file=sys.stderr, flush=True)

    if not settings.quiet:
        print("starting Flower's simulation engine (half a minute)", file=sys.stderr, flush=True)
    results = simulate(plans, progress=progress, verbose=verbose)
    page = _report([Path(plan.out) for plan in plans], out / "report.html")
    rows = [row for _, found in results for row in found if row["round"]]
    if as_json:
        from recondite.notions import json_ready

        print_json(json_ready({"schema_version": 1, "rounds": rows, "report": page}))
        return
    _show(rows, out, page, simulation=seed >= 0)


def _report(folders: list[Path], path: Path) -> str | None:
    """Writes the page and returns its name; None where no auditor left anything to show."""
    from recondite.report import build

    found = [folder for folder in folders if (folder / "records.jsonl").exists()]
    if found:
        build(found, path)
    return path.name if found else None


def _show(rows: list[Row], out: Path, page: str | None, *, simulation: bool) -> None:
    table = []
    for row in rows:
        algorithm = "FedSGD" if row["local_steps"] == 1 else f"FedAvg E={row['local_steps']}"
        shown = [f"{row['partition']}, {algorithm}, {row['defence']}", str(row["round"])]
        shown += [f"{100 * row['accuracy']:.1f} %", _cost(row)]
        table.append([*shown, figure(row["ssim"], 2), figure(row["mse"], 2)])
    columns = ["federation", "round", "accuracy", "leaked by one client, at most"]
    columns += ["best SSIM", "its MSE"]
    whom = sorted({str(row["protects"]) for row in rows} - {"nothing"})
    more = f", and {page} of what was rebuilt" if page else "; nothing was rebuilt, so no report"
    notes = [
        "best SSIM: what the server rebuilt best of one client's round; 1 is an exact copy",
        "no amplification by client sampling is claimed; Γ_server and the prior are not bounded",
        f"written to {out}: a folder for each federation{more}",
    ]
    if whom:
        notes.insert(0, f"what a defence protects: {', '.join(whom)}")
    if simulation:
        notes.insert(0, "a simulation: noise that follows from a seed protects nobody")
    title = "Federations, round by round"
    # What names a federation goes on in the next line: the rest fits 80 columns whole.
    print_table(title, columns, table, notes, numbers=(1, 2, 4, 5), wrap=True)


def _cost(row: Row) -> str:
    if row["protects"] == "nothing":
        return "everything"
    epsilon = "" if row["epsilon"] is None else f"ε {format_bound(row['epsilon'], 3)}, "
    others = [
        f", {each.short} {notion.format(row[key], 3)}"
        for key, (notion, each) in figures().items()
        if row.get(key) is not None and notion.key not in built_in()
    ]
    return f"{epsilon}{format_bound(row['information'], 3)} nats{''.join(others)}"


def up(
    nodes: Annotated[int, typer.Option("--nodes", help="SuperNodes.")] = 2,
    rounds: _ROUNDS = 2,
    defence: Annotated[str, typer.Option("--defence", help=DEFENCES)] = "vmf",
    strength: _STRENGTH = 500.0,
    capacity: _CAPACITY = 0.1,
    level: _LEVEL = "client",
    max_norm: _NORM = 1.0,
    local_steps: Annotated[int, typer.Option("--local-steps", help="E; 1 is FedSGD.")] = 1,
    data: _DATA = "mnist-5k",
    model: _MODEL = "mlp",
    batch_size: _BATCH = 4,
    learning_rate: _RATE = 0.5,
    audit_seconds: _SECONDS = 10.0,
    wait: Annotated[float, typer.Option("--wait", help="Seconds a round waits.")] = 300.0,
    port: Annotated[int, typer.Option("--port", help="First port; 0 finds free ones.")] = 0,
    days: Annotated[int, typer.Option("--days", help="How long certificates are valid.")] = 30,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a server in --out was killed.")
    ] = False,
    noise_at: Annotated[
        str, typer.Option("--noise-at", help="Who adds the noise: client, sum (shares) or server.")
    ] = "client",
    secure: Annotated[
        bool, typer.Option("--secure", help="SecAgg+: the server sees sums only.")
    ] = False,
    honest: Annotated[
        int, typer.Option("--honest", help="Fewest clients in a sum, assumed to be honest.")
    ] = 2,
    data_dir: _DATA_DIR = "",
    out: _OUT = Path("deployment"),
) -> None:
    """A deployment on loopback."""
    from recondite.federated.checkpoint import Checkpoint
    from recondite.federated.flower.deployment import Deployment, DeploymentError, Ended
    from recondite.federated.flower.processes import private_folder
    from recondite.federated.flower.project import write_app
    from recondite.federated.settings import Settings
    from recondite.federated.shares import check_auditable, initial_model

    place = out.resolve()
    noisy = find(defence).on_gradients
    found = data_dir or os.environ.get("RECONDITE_DATA", "")
    plan = Settings(
        data=data,
        model=model,
        clients=nodes,
        rounds=rounds,
        defence=defence,
        strength=strength if noisy else 0.0,
        capacity=capacity,
        level=level,
        max_norm=max_norm,
        local_steps=local_steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        audit_every=int(audit_seconds > 0),
        audit_seconds=audit_seconds or 1.0,
        wait=wait,
        data_dir=str(Path(found).resolve()) if found else "",
        out=str(place / "results"),
        resume=int(resume),
        noise_at=noise_at,
        secure=int(secure),
        honest=honest,
        server_ledger=str(place / "ledgers" / "server"),
    )

    def tell(line: str) -> None:
        if not settings.quiet:
            print(line, file=sys.stderr, flush=True)

    # A wrong model, data set or checkpoint is told before anything is started.
    model_there = initial_model(plan)
    if plan.audit_every:
        check_auditable(plan)
    if resume:
        Checkpoint.resumed(place / "results", plan, model_there)
    private_folder(place)
    # The policy is pinned on every node: what the server's app says of it is not read there.
    policy = plan.policy().with_values(ledger=str(place / "ledgers")).to_config()
    try:
        machine = Deployment(
            place, nodes, lambda index: policy, port=port, days=days, keep=resume, tell=tell
        )
        if not resume:
            _set_aside(place / "results")
        app = write_app(place / "app", plan)
        with machine:
            for line in machine.run(app):
                tell(line)
    except Ended as signal:
        print(f"recondite: ended by {signal}: nothing is left running", file=sys.stderr)
        raise typer.Exit(128 + signal.number) from None
    except DeploymentError as error:
        print(f"recondite: {error} (logs in {out}; --resume goes on)", file=sys.stderr)
        raise typer.Exit(1) from None
    if not (place / "results" / "rounds.csv").exists():
        where = f"see the logs in {out}, and go on with --resume"
        print(f"recondite: the run did not finish: {where}", file=sys.stderr)
        raise typer.Exit(1)
    _show_deployment(place, out)


def _set_aside(results: Path) -> None:
    """An earlier run's results get a number: they must not pass for those of this one."""
    if not results.exists():
        return
    number = 1
    while (older := results.with_name(f"{results.name}-{number}")).exists():
        number += 1
    results.rename(older)


def _show_deployment(place: Path, out: Path) -> None:
    """Rounds by the server's table, and what every client spent by its own ledger."""
    import csv

    from recondite.federated.cost import spent
    from recondite.federated.flower.server import ledgers
    from recondite.federated.ledger import ReleaseLedger

    with (place / "results" / "rounds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = [[r["round"], f"{100 * float(r['accuracy']):.1f} %", r["defence"]] for r in rows]
    print_table("Rounds", ["round", "accuracy", "defence"], table, (), (0, 1))
    costs = ledgers(place / "ledgers")
    lines = [
        [str(i), str(c.rounds), format_bound(c.epsilon), format_bound(c.information), c.level]
        for i, c in enumerate(costs)
    ]
    central = place / "ledgers" / "server"
    if central.exists():
        cost = spent(ReleaseLedger(central).lines())
        costs.append(cost)
        shown = [format_bound(cost.epsilon), format_bound(cost.information), cost.level]
        lines.append(["models", str(cost.rounds), *shown])
    against = dict.fromkeys(cost.against for cost in costs)
    page = "results/report.html, " if (place / "results" / "report.html").exists() else ""
    notes = [
        *(f"against {whom}" for whom in against),
        "ε at δ = 1e-5 and nats, at most, by each client's own ledger; Γ_server: not bounded",
        f"written to {out}: {page}keys, ledgers and logs",
    ]
    columns = ["client", "rounds", "ε", "nats", "protects"]
    print_table("Released by each client", columns, lines, notes, (0, 1, 2, 3))


def ledger(
    folder: Annotated[Path, typer.Argument(help="A client's ledger folder.")],
    delta: Annotated[float, typer.Option("--delta", help="δ of (ε, δ).")] = 1e-5,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What a client has spent."""
    from recondite.federated.cost import spent
    from recondite.federated.ledger import ReleaseLedger

    if not (folder / "releases.jsonl").exists():
        raise ValueError(f"{folder} holds no ledger: give the folder with releases.jsonl")
    cost = spent(ReleaseLedger(folder).lines(), delta)
    if as_json:
        print_json({"schema_version": 1, **cost.to_dict()})
        return
    why = cost.reasons
    told = cost.gamma["client"]
    rows = [
        ["rounds released", str(cost.rounds), "or that may have been"],
        ["noised steps", str(cost.steps), ""],
        [
            "ε",
            format_bound(cost.epsilon),
            why.get("epsilon", f"at δ = {round_bound(delta, 3):.3g}, {cost.neighbouring}"),
        ],
        ["log Bayes' capacity", format_bound(cost.capacity), why.get("capacity", "nats")],
        ["mutual information", format_bound(cost.information), why.get("information", "nats")],
        *(
            [each.label, notion.format(cost.notions[key]), why.get(key, notion.promise)]
            for key, (notion, each) in figures().items()
            if key in cost.notions
        ),
        ["Γ_client", format_bound(told), "nats, all rounds and local steps"],
        ["Γ_server", str(cost.gamma["server"]), "what the server knows from elsewhere"],
        ["prior", str(cost.gamma["prior"]), "what anybody knew before"],
    ]
    notes = [f"protects {cost.protects}", f"against {cost.against}"]
    if cost.simulation:
        notes.insert(0, "a simulation: noise that follows from a seed protects nobody")
    print_table(
        f"Released by this client: {cost.about}", ["quantity", "value", ""], rows, notes, (1,)
    )
