"""The one door through which a bill grows: an agreement, attempts with failover, the create call."""
