package docker

// maskedPaths repeats Docker's own list, because setting the field replaces
// it, and hides more of what tells one host from another.
// /sys/devices/system/cpu and /sys/fs/cgroup stay: numeric libraries and the
// supervisor's counter of memory kills read them.
func maskedPaths() []string {
	return []string{
		// Docker's defaults.
		"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
		"/sys/firmware", "/sys/devices/virtual/powercap",
		// Ours.
		"/proc/interrupts", "/proc/kallsyms", "/proc/modules", "/proc/partitions",
		"/proc/diskstats", "/proc/locks", "/proc/swaps", "/proc/buddyinfo", "/proc/slabinfo",
		"/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/schedstat", "/proc/config.gz",
		"/proc/iomem", "/proc/ioports",
		"/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/hypervisor", "/sys/kernel",
		"/sys/module", "/sys/power", "/sys/fs/bpf",
	}
}

// readonlyPaths repeats Docker's own list.
func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}
