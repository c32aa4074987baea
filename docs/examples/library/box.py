"""A box from the first look at its price to its end: `python3 box.py`, in the sandbox with `--sandbox`."""

import sys
from decimal import Decimal

from gpucloud import CleanupIncompleteError, Client, GpucloudError, Spec, Workload

SPEC = Spec(gpu="T4", ttl="1h", max_price="0.60")


def main() -> None:
    """Prints each step."""
    with Client.sandbox() if "--sandbox" in sys.argv else Client() as client:
        best = client.market.estimate(SPEC, Workload(hours=Decimal(8))).best
        if best is not None:
            print(f"8 hours: {best.expected_total:.2f} USD, {best.offer.purchase} on {best.offer.cloud}")
        plan = client.plan(SPEC)
        limit = client.market.cost_limit(plan)
        print(f"{len(plan.attempts)} offers, at most {limit.usd_per_hour:.2f} USD per hour")
        box = client.launch(plan, name="example")
        try:
            print(box.exec(["nvidia-smi", "-L"]).stdout, end="")
        finally:
            box.down()
        print(f"{box.name} is {client.get('example').state}")


if __name__ == "__main__":
    try:
        main()
    except CleanupIncompleteError as error:
        sys.exit(f"{error.message}\nThis ends it: {error.owed_command}")
    except GpucloudError as error:  # nothing is left
        print(f"{error.message}\n{error.hint or ''}", file=sys.stderr)
        sys.exit(error.exit_code)
