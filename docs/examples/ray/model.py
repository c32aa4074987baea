"""A model behind HTTP whose replicas follow the requests that wait: `serve run model:app` on the head.

Without requests there is no replica, so no node; each replica has a GPU of its own.
"""

from ray import serve
from starlette.requests import Request


@serve.deployment(
    ray_actor_options={"num_gpus": 1, "num_cpus": 0},
    max_ongoing_requests=4,
    autoscaling_config={
        "min_replicas": 0,
        "max_replicas": 3,
        "target_ongoing_requests": 2,  # of each replica, those that run and those that wait
        "upscale_delay_s": 10,
        "downscale_delay_s": 300,
    },
)
class Model:
    """Answers with the length of what it was sent."""

    async def __call__(self, request: Request) -> dict[str, int]:
        """One request."""
        return {"bytes": len(await request.body())}


app = Model.bind()
