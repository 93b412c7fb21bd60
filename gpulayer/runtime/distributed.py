"""Which ranks live on which node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankPlan:
    """Node rank r hosts the global ranks [r*P, (r+1)*P)."""

    num_workers: int
    procs_per_worker: int

    @property
    def world_size(self) -> int:
        return self.num_workers * self.procs_per_worker

    def ranks_of(self, node_rank: int) -> range:
        """Return the global ranks of one node."""
        if not 0 <= node_rank < self.num_workers:
            raise IndexError(f"node rank {node_rank} of {self.num_workers}")
        return range(node_rank * self.procs_per_worker, (node_rank + 1) * self.procs_per_worker)

    def node_of(self, rank: int) -> int:
        """Return the node that hosts a global rank."""
        if not 0 <= rank < self.world_size:
            raise IndexError(f"rank {rank} of {self.world_size}")
        return rank // self.procs_per_worker

    def local_rank_of(self, rank: int) -> int:
        """Return a global rank's number on its own node."""
        return rank - self.ranks_of(self.node_of(rank)).start
