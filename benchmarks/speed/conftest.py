"""Every benchmark runs on one thread, so that ratios compare work and not cores, and says how busy the machine was."""

import os

import pytest
import torch
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """BLAS, OpenMP and torch on one thread; the second that torch's first optimiser takes is not anyone's time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def pytest_benchmark_update_machine_info(config, machine_info):
    """Others at work on the machine make every time doubtful: note the mean load of the last minute."""
    machine_info["load"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
