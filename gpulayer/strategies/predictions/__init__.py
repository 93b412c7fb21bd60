"""predict on several ranks: what each draws, and how their predictions become those of one device.

Lightning deals out single samples and returns each rank its own share. Here whole batches are dealt out, so that each is
computed as one device would compute it, and every rank and the caller get all of them, in the loader's order.
"""

from gpulayer.strategies.predictions.gathering import Predicting

__all__ = ["Predicting"]
