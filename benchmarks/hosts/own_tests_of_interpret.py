"""InterpretML's own tests, run as they are and again with this package's class in place of its blackbox explainers.

Usage: python benchmarks/hosts/own_tests_of_interpret.py [--explainers relax-global greedy] [--folder .bench/interpret]

Fetches the source archive of the installed interpret-core by pip, which holds its tests. Run are those about blackbox
explainers and about extensions, which is what our class is to interpret:

- tests/test_explainers.py, the conformance test of all explainers: our class stands for `PartialDependence`, the only
  blackbox explainer that it still tries (LIME, SHAP and Morris are commented out there), with a classifier and with a
  regressor without any goal;
- tests/test_ext.py, the demonstration of extensions: our class stands for `ExampleBlackboxExplainer`;
- tests/visual/test_interactive.py, what `show`, `show_link` and `preserve` do with an explanation: ours stands for that
  of its logistic regression;
- tests/ext, tests/test_extension_utils.py, tests/blackbox and tests/api, which make no blackbox explainer: they are run
  to see that nothing else is disturbed.

All other files of the archive's tests are about glassbox models, native code and servers. Of texts the archive has a
README, whose code explains glassbox models only; the notebooks about LIME and SHAP are not in it.
ReLAX trains for thirty steps. The outcome of the first explainer is stored in docs/results/hosts/interpret.csv. Not
part of `make test`: it needs an index of packages.
"""

from typing import Any

from sdists import Host, compare, subject, watch

HOST = Host(
    name="interpret",
    package="interpret-core",
    parts=["tests"],
    tests=[
        "tests/test_explainers.py",
        "tests/test_ext.py",
        "tests/ext",
        "tests/test_extension_utils.py",
        "tests/visual/test_interactive.py",
        "tests/blackbox",
        "tests/api",
    ],
    plugin="own_tests_of_interpret",
    needed=["six"],
)


# From here on: the plugin of pytest, inside the runs.


def pytest_configure() -> None:
    if not subject():
        return
    import interpret.blackbox
    import interpret.ext.blackbox

    from relax_plugin.adapters.interpret import CounterfactualExplanation, ReLAX

    watch(ReLAX, CounterfactualExplanation)
    swapped = in_place_of_theirs(ReLAX)
    interpret.blackbox.PartialDependence = swapped
    interpret.ext.blackbox.ExampleBlackboxExplainer = swapped


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if subject() and item.module.__name__.endswith("test_interactive"):
            item.module.LogisticRegression = explained()


def explained() -> type:
    """A logistic regression one of whose explanations is ours, of five rows called A to E (four are its features)."""
    import interpret.blackbox
    import sklearn.linear_model

    class Explained(sklearn.linear_model.LogisticRegression):  # type: ignore[misc]
        def explain_global(self) -> Any:
            return interpret.blackbox.PartialDependence(self, self.rows).explain_local(
                self.rows[:5].set_axis(list("ABCDE"))
            )

        def fit(self, X: Any, y: Any) -> Any:
            self.rows = X
            return super().fit(X, y)

    return Explained


def in_place_of_theirs(face: type) -> type:
    """Our class with the explainer of this run, called as interpret calls its own."""
    from relax_plugin import ReLAXConfig

    few = ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30)
    name = str(subject())
    options = {"config": few, "progress": False} if name.startswith("relax") else None

    class Swapped(face):  # type: ignore[misc]
        def __init__(self, model: Any, data: Any, feature_names: Any = None, feature_types: Any = None) -> None:
            super().__init__(model, data, feature_names, feature_types, explainer=name, options=options)

    return Swapped


if __name__ == "__main__":
    compare(HOST, ["relax-global", "greedy"])
