"""The page on the fake worker, to look at it without a model: PYTHONPATH=. python tests/browser/fake_app.py"""

import os

from fake_worker import FakeEngine, FakeWorker

from app.build import build, launch_options
from app.service import Service

if __name__ == "__main__":
    worker = FakeWorker(step=float(os.environ.get("STEP", "0.05")), load=float(os.environ.get("LOAD", "0")))
    port = int(os.environ.get("PORT", "7870"))
    build(Service(FakeEngine(worker))).launch(server_name="127.0.0.1", server_port=port, **launch_options())
