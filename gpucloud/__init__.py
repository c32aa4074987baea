"""Put one GPU spec onto AWS, Azure or Alibaba Cloud: know the bill, launch the cheapest, never leak it."""

__version__ = "0.1.0"
