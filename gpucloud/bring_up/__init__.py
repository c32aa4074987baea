"""From a machine to a box that works: ssh, files, data, set-up, GPU test, fabric."""
