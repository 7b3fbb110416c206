"""The page on the fake worker, to look at it without a model: PYTHONPATH=. python tests/browser/fake_app.py"""

import os

from fake_worker import FakeEngine, FakeWorker

from app.build import build, launch_options
from app.service import Service

if __name__ == "__main__":
    step, load = (float(os.environ.get(name, default)) for name, default in (("STEP", "0.05"), ("LOAD", "0")))
    draft = float(os.environ.get("DRAFT", "0.001"))
    worker = FakeWorker(step=step, load=load, echo="ECHO" in os.environ, draft=draft)
    port = int(os.environ.get("PORT", "7870"))
    os.environ.setdefault("SPECLENS_KEPT_RUNS", "0")  # journeys press Run twice and mean it
    service = Service(FakeEngine(worker))
    build(service).launch(server_name="127.0.0.1", server_port=port, **launch_options(service))
