"""Adapters: any explainer of relax_plugin behind the interface of another toolkit."""
