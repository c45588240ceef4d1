"""The engine that makes runs on a Ray cluster: one task a run, made elsewhere when its process or its node dies.

A worker that sees the driver's folder makes its run right there, so that another goes on from its checkpoints.
One that does not makes it in a temporary folder of its node, and the driver writes the finished files.
"""

from coteach.bench.cluster.connection import connect
from coteach.bench.cluster.driver import jobs_on_cluster, run_on_cluster
from coteach.bench.cluster.worker import How, node_folder

__all__ = ["How", "connect", "jobs_on_cluster", "node_folder", "run_on_cluster"]
