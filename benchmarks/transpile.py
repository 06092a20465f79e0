"""What `transpile` costs and how exact it is: every layout against the original network, measured in the same run.

    python benchmarks/transpile.py [--quick] [--part speed models loose digits encoders] [--batch 1024] [--only TEXT]

Speed is the median CPU time of several runs, one thread, float32; "ratio" is the time over that of the original MLP
(Linear, activation, Linear) measured just before and after. Models: the same for whole models of transformers, from
configuration, 8 x 32 tokens, where transformers is installed. Loose: the proved bound over the largest deviation that
climbing finds (`sources/climbing.py`, `sources/rounding_climb.py`), of the digits networks and of a feed-forward block
as BERT has it, all of them float64 sources, in the layouts taken unless one is named, and in float32 throughout.
Accuracy: deviation from the original in long double on the 1797 digits of scikit-learn, beside the proved bound and the
error of the original run in float32.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sources.climbing import climbed
from sources.rounding_climb import farthest
from torch import nn

import softwright as sw

PARTS = ("speed", "models", "loose", "digits", "encoders")
LAYOUTS = ("softmax", "double", "sdpa", "multihead", "sequence")
LEAST = 0.15  # seconds of CPU that one median takes


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """Of so many runs, and more of short ones, whose neighbours on the machine come and go within as many."""
    times: list[float] = []
    with torch.no_grad():
        run()
        while len(times) < repeats or (repeats > 3 and sum(times) < LEAST):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
    return float(np.median(times))


def ratio(source: Callable[[], object], own: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median seconds of the source, the lesser of before and after, and how many times as long the other takes."""
    before = median_seconds(source, 9)
    seconds = median_seconds(own, repeats)
    base = min(before, median_seconds(source, 9))
    return base, seconds / base


def speed(quick: bool, batch: int) -> None:
    print(f"speed, batch {batch}, one thread (ratio to the original)\n")
    print(f"{'network':<32}{'MLP ms':>8}" + "".join(f"{layout:>12}" for layout in LAYOUTS))
    shapes = [(64, 256, 64), (256, 1024, 256), (512, 2048, 512)]
    cases = [(sizes, dtype) for sizes in (shapes[:1] if quick else shapes) for dtype in (torch.float32, torch.float64)]
    for sizes, dtype in cases:
        for activation in (nn.ReLU(), nn.SiLU(), nn.GELU()):
            torch.manual_seed(0)
            mlp = nn.Sequential(nn.Linear(sizes[0], sizes[1]), activation, nn.Linear(sizes[1], sizes[2])).eval()
            mlp, x = mlp.to(dtype), torch.randn(batch, sizes[0], dtype=dtype)
            base, ratios = np.inf, []
            for layout in LAYOUTS:
                if layout == "sequence" and (sizes[1] > 256 or dtype == torch.float64):
                    ratios.append("-")  # p copies of every position
                    continue
                # "double" of a float64 source is what it gives in float32
                asked = "float32" if layout == "double" else None
                network = sw.transpile(mlp, layout=layout, dtype=asked, certify=False).network
                given = x.to(network.dtype)
                own = lambda network=network, x=given: network(x)  # noqa: E731
                seconds, times = ratio(lambda mlp=mlp, x=x: mlp(x), own, 3 if layout == "sequence" else 9)
                base = min(base, seconds)
                ratios.append(f"{times:.2f}x")
            name = f"{'-'.join(map(str, sizes))} {type(activation).__name__} {str(dtype).removeprefix('torch.')}"
            print(f"{name:<32}{1e3 * base:>8.2f}" + "".join(f"{one:>12}" for one in ratios), flush=True)


def models() -> None:
    """Whole models: what their feed-forward blocks cost as attention."""
    try:  # by its name: type checkers need not read the whole package
        transformers = importlib.import_module("transformers")
    except ImportError:
        print("\nmodels: transformers is not installed")
        return
    print("\nwhole models, float32, 8 x 32 tokens, one thread (ratio to the original)\n")
    print(f"{'model':<26}{'ms':>8}" + "".join(f"{layout:>12}" for layout in ("softmax", "sdpa", "multihead")))
    torch.manual_seed(0)
    bert = transformers.BertConfig(
        vocab_size=100, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4
    )
    llama = transformers.LlamaConfig(
        vocab_size=100, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4
    )
    tokens = torch.randint(0, 100, (8, 32))
    for name, model, config in (("BERT 256/1024 x 4", "BertModel", bert), ("Llama 128/256 x 2", "LlamaModel", llama)):
        source, ratios, base = getattr(transformers, model)(config).eval(), [], np.inf
        for layout in ("softmax", "sdpa", "multihead"):
            network = sw.transpile(source, layout=layout, certify=False).network
            seconds, times = ratio(
                lambda source=source: source(tokens), lambda network=network: network(tokens), 9 if not ratios else 3
            )
            base = min(base, seconds)
            ratios.append(f"{times:.2f}x")
        print(f"{name:<26}{1e3 * base:>8.2f}" + "".join(f"{one:>12}" for one in ratios), flush=True)


def looseness(only: str) -> None:
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    print("\nproved bound over the largest deviation found by climbing\n")
    print(f"{'network':<28}{'dtype':<10}{'layout':<10}{'bound':>10}{'found':>10}{'ratio':>8}")
    cases: list[tuple[str, object, float, float]] = []
    for hidden in ((100,), (64, 32)):
        for activation in ("relu", "tanh", "logistic"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = {"activation": activation, "max_iter": 30, "random_state": 0}
                mlp = MLPClassifier(hidden_layer_sizes=hidden, **options).fit(X / 16.0, y)
            cases.append((f"{'-'.join(map(str, (64, *hidden, 10)))} {activation}", mlp, 0.0, 1.0))
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).double().eval()
    for layer in (block[0], block[2]):
        nn.init.normal_(layer.weight, std=0.02)  # type: ignore[arg-type]
    cases.append(("BERT block 64-256-64 gelu", block, -8.01, 8.01))
    for dtype, asked in (("float64", None), ("float32", None), ("float32", "softmax")):
        for name, thing, low, high in (case for case in cases if only in case[0]):
            built = sw.transpile(thing, (low, high), dtype=dtype, layout=asked)
            layout = built.network.layout
            source = built.source
            ends = np.full(source.inputs, low), np.full(source.inputs, high)
            points = climbed(built.network, lambda p, source=source: source(p, exact=True), *ends, 100, 3)
            found = max(float(np.abs(built(points) - source(points, exact=True)).max()), farthest(built, *ends))
            bound = built.certificate.bound
            print(f"{name:<28}{dtype:<10}{layout:<10}{bound:>10.1e}{found:>10.1e}{bound / found:>8.0f}", flush=True)


def digits() -> None:
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    X, y = map(np.asarray, load_digits(return_X_y=True))
    X = X / 16.0
    print("\ndigits (1797 inputs, box [0, 1]^64)\n")
    print(f"{'network':<24}{'float64':>10}{'bound':>10}{'float32':>10}{'bound':>10}{'MLP f32':>10}{'classes':>10}")
    for hidden in ((100,), (64, 32)):
        for activation in ("relu", "tanh", "logistic"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mlp = MLPClassifier(hidden, activation=activation, max_iter=60, random_state=0).fit(X, y)
            double, single = (sw.transpile(mlp, (0, 1), dtype=dtype) for dtype in ("float64", "float32"))
            exact = double.source(X, exact=True)
            error64, error32 = (float(np.abs(built(X) - exact).max()) for built in (double, single))
            native = float(np.abs(native_float32(double.source, X) - exact).max())
            same = bool(np.all(mlp.classes_[double(X).argmax(axis=1)] == mlp.predict(X)))
            name = f"{'-'.join(map(str, (64, *hidden, 10)))} {activation}"
            print(
                f"{name:<24}{error64:>10.1e}{double.certificate.bound:>10.1e}{error32:>10.1e}"
                f"{single.certificate.bound:>10.1e}{native:>10.1e}{'same' if same else 'DIFFER':>10}"
            )


def native_float32(source: object, X: np.ndarray) -> np.ndarray:
    """The original network run in float32 by torch."""
    h = torch.tensor(X, dtype=torch.float32)
    functions = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "identity": lambda t: t}
    for layer in getattr(source, "layers", ()):
        weight, bias = (torch.tensor(a, dtype=torch.float32) for a in (layer.weight, layer.bias))
        h = functions[layer.activation.name](nn.functional.linear(h, weight, bias))
    return h.double().numpy()


class Encoder(nn.Module):
    """Two transformer layers over the eight rows of a digit."""

    def __init__(self, activation: str | Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.places = nn.Parameter(torch.randn(8, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, activation, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=isinstance(activation, str))
        self.out = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.encoder(self.embed(x) + self.places).mean(1))


def encoders() -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    X, y = torch.tensor(images / 16.0, dtype=torch.float32).reshape(-1, 8, 8), torch.tensor(labels)
    print("\nTransformerEncoder, 2 layers, d = 32, ff = 64, trained on the rows of the digits\n")
    print(f"{'':<12}{'layout':<12}{'float64':>10}{'bound':>10}{'float32':>10}{'own f32':>10}{'classes':>9}")
    for name, activation in (("relu", "relu"), ("silu", nn.functional.silu), ("gelu", "gelu")):
        torch.manual_seed(0)
        net = Encoder(activation)
        optimiser = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(4):
            for rows in torch.randperm(1500).split(100):
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
                optimiser.step()
        net.eval()
        double = copy.deepcopy(net).double()
        with torch.no_grad():
            exact = double(X.double())
            native = float((net(X).double() - exact).abs().max())
            for layout in LAYOUTS:
                built = sw.transpile(double, layout=layout)
                values, single = built.network(X.double()), sw.transpile(net, layout=layout).network(X).double()
                same = bool((values.argmax(1) == exact.argmax(1)).all())
                print(
                    f"{name:<12}{layout:<12}{float((values - exact).abs().max()):>10.1e}"
                    f"{built.certificate.bound:>10.1e}{float((single - exact).abs().max()):>10.1e}{native:>10.1e}"
                    f"{'same' if same else 'DIFFER':>9}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost and accuracy of transpile.")
    parser.add_argument("--quick", action="store_true", help="small networks only")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--only", default="", help="looseness of networks whose names hold this text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for part in options.part:
        match part:
            case "speed":
                speed(options.quick, options.batch)
            case "models":
                models()
            case "loose":
                looseness(options.only)
            case "digits":
                digits()
            case _:
                encoders()


if __name__ == "__main__":
    main()
