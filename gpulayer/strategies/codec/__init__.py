"""Python values as plain data and tensors that ``torch.load(weights_only=True)`` carries, with shared references kept.

A graph is a table of nodes. ``None``, booleans, integers, floats and strings stand for themselves; a one-tuple ``(n,)`` is a
reference to node n; a node is a dictionary whose ``k`` names its kind. So aliases stay aliases, and cycles are no trouble.
"""

from gpulayer.strategies.codec.decoder import Decoder
from gpulayer.strategies.codec.encoder import Encoder
from gpulayer.strategies.codec.nodes import Lost, Node, NotCarried
from gpulayer.strategies.codec.objects import delete_attribute, set_attributes
from gpulayer.strategies.codec.tensors import tensor_node

__all__ = ["Decoder", "Encoder", "Lost", "Node", "NotCarried", "delete_attribute", "set_attributes", "tensor_node"]
