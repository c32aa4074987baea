"""Three tasks that want a GPU each, on three nodes: run it on the machine of the head."""

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(address="auto", log_to_driver=False)
nodes = placement_group([{"GPU": 1}] * 3, strategy="STRICT_SPREAD")
ray.get(nodes.ready())  # the autoscaler launches what is missing


@ray.remote(num_gpus=1, num_cpus=0)
def where() -> str:
    """The node of a task."""
    return ray.get_runtime_context().get_node_id()


for bundle in range(3):
    place = PlacementGroupSchedulingStrategy(nodes, placement_group_bundle_index=bundle)
    print(ray.get(where.options(scheduling_strategy=place).remote()))
