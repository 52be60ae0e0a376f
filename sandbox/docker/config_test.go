package docker

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func testPlan() plan {
	return plan{
		spec: sandbox.Spec{
			Root:    sandbox.Root{Image: "biocage/default:1234"},
			Session: "s1",
			Command: []string{"python3", "-I", "/opt/biocage/biocage_agent_main.py"},
			Env:     []string{"PATH=/usr/bin:/bin", "HOME=/work"},
			Agent:   "/srv/agent",
			Limits:  sandbox.Limits{MemoryBytes: 2 << 30, CPUs: 1.5, PIDs: 256, DiskBytes: 1 << 30},
			Mounts:  []sandbox.Mount{{Host: "/srv/models", Sandbox: "/data/models"}, {Host: "/srv/out", Sandbox: "/data/out", Mode: sandbox.ReadWrite}},
		},
		uid:       1234567,
		socketDir: "/tmp/biocage-1/s1",
		labels:    map[string]string{labelSession: "s1"},
	}
}

// Any change of what a container is or may do must be seen in a golden file.
func TestSettingsGolden(t *testing.T) {
	for name, change := range map[string]func(*plan){
		"runc":    func(*plan) {},
		"stdio":   func(p *plan) { p.socketDir = "" },
		"network": func(p *plan) { p.spec.Network = sandbox.NetworkFull },
		"runsc":   func(p *plan) { p.runtime, p.socketDir = runsc, "" },
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlan()
			change(&p)
			config, host := settings(p)
			for i, option := range host.SecurityOpt {
				if option == "seccomp="+seccompProfile {
					host.SecurityOpt[i] = "seccomp=(seccomp.json)"
				}
			}
			got, err := json.MarshalIndent(map[string]any{"Config": config, "HostConfig": host}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "settings-"+name+".json"), string(got)+"\n")
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if that is right, run the test with -update:\n%s", file, diff)
	}
}

// A field that a new version of the client brings must be decided here: set
// in settings, or listed as left alone on purpose.
func TestEveryFieldIsDecided(t *testing.T) {
	leftAlone := map[string][]string{
		"Config": {
			"Domainname", "ExposedPorts", "Tty", "Cmd", "ArgsEscaped", "Volumes", "MacAddress", "OnBuild", "Shell",
		},
		"HostConfig": {
			"Binds", "ContainerIDFile", "PortBindings", "VolumeDriver", "VolumesFrom", "ConsoleSize", "Annotations",
			"CapAdd", // runsc only
			"DNS", "DNSOptions", "DNSSearch", "ExtraHosts", "GroupAdd", "Cgroup", "Links", "PidMode", "Privileged",
			"PublishAllPorts", "StorageOpt", "UTSMode", "UsernsMode", "Sysctls", "Isolation",
			"Runtime", // the daemon's default, or what the options ask
		},
		"Resources": {
			"CgroupParent", "BlkioWeight", "BlkioWeightDevice", "BlkioDeviceReadBps", "BlkioDeviceWriteBps",
			"BlkioDeviceReadIOps", "BlkioDeviceWriteIOps", "CPUPeriod", "CPUQuota", "CPURealtimePeriod",
			"CPURealtimeRuntime", "CpusetCpus", "CpusetMems", "Devices", "DeviceCgroupRules", "DeviceRequests",
			"KernelMemory", "KernelMemoryTCP", "MemoryReservation", "MemorySwappiness", "CPUCount", "CPUPercent",
			"IOMaximumIOps", "IOMaximumBandwidth",
		},
	}
	config, host := settings(testPlan())
	for _, value := range []reflect.Value{reflect.ValueOf(*config), reflect.ValueOf(*host), reflect.ValueOf(host.Resources)} {
		kind := value.Type().Name()
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if field.Anonymous {
				continue
			}
			alone := slices.Contains(leftAlone[kind], field.Name)
			switch zero := value.Field(i).IsZero(); {
			case zero && !alone:
				t.Errorf("%s.%s is neither set nor decided to be left alone", kind, field.Name)
			case !zero && alone:
				t.Errorf("%s.%s is set, and listed as left alone", kind, field.Name)
			}
		}
		for _, name := range leftAlone[kind] {
			if _, ok := value.Type().FieldByName(name); !ok {
				t.Errorf("%s.%s does not exist any more", kind, name)
			}
		}
	}
}

// A container that is not what was asked for is told field by field.
func TestDeviations(t *testing.T) {
	m := &making{plan: testPlan(), daemon: &daemon{memory: true, swap: true, pids: true}}
	healthy := func() container.InspectResponse {
		config, host := settings(m.plan)
		// What daemons fill in by themselves.
		host.Runtime = "runc"
		host.DNS, host.Devices = []string{}, []container.DeviceMapping{}
		host.OomKillDisable = nil
		host.LogConfig.Config = map[string]string{}
		config.Env = append(config.Env, "FROM_IMAGE=1")
		response := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{HostConfig: host}, Config: config}
		for _, mount := range host.Mounts {
			response.Mounts = append(response.Mounts, container.MountPoint{Destination: mount.Target, RW: !mount.ReadOnly})
		}
		return response
	}
	yes := true
	for name, test := range map[string]struct {
		change func(*container.InspectResponse)
		want   []string
	}{
		"healthy":      {func(*container.InspectResponse) {}, nil},
		"no memory":    {func(r *container.InspectResponse) { r.HostConfig.Memory = 0 }, []string{"HostConfig.Memory"}},
		"privileged":   {func(r *container.InspectResponse) { r.HostConfig.Privileged = true }, []string{"HostConfig.Privileged"}},
		"capabilities": {func(r *container.InspectResponse) { r.HostConfig.CapDrop = nil }, []string{"HostConfig.CapDrop"}},
		"no seccomp":   {func(r *container.InspectResponse) { r.HostConfig.SecurityOpt = r.HostConfig.SecurityOpt[:1] }, []string{"HostConfig.SecurityOpt"}},
		"init":         {func(r *container.InspectResponse) { r.HostConfig.Init = &yes }, []string{"HostConfig.Init"}},
		"oom off":      {func(r *container.InspectResponse) { r.HostConfig.OomKillDisable = &yes }, []string{"HostConfig.OomKillDisable"}},
		"no masks":     {func(r *container.InspectResponse) { r.HostConfig.MaskedPaths = r.HostConfig.MaskedPaths[1:] }, []string{"HostConfig.MaskedPaths"}},
		"pids":         {func(r *container.InspectResponse) { r.HostConfig.PidsLimit = nil }, []string{"HostConfig.PidsLimit"}},
		"root":         {func(r *container.InspectResponse) { r.Config.User = "" }, []string{"Config.User"}},
		"volume": {func(r *container.InspectResponse) {
			r.Config.Volumes = map[string]struct{}{"/var/lib": {}}
			r.Mounts = append(r.Mounts, container.MountPoint{Destination: "/var/lib", RW: true})
		}, []string{"Config.Volumes", `an unexpected mount at "/var/lib"`}},
		"writable agent": {func(r *container.InspectResponse) { r.Mounts[0].RW = true }, []string{`an unexpected mount at "/opt/biocage"`}},
		"lost variable":  {func(r *container.InspectResponse) { r.Config.Env = r.Config.Env[1:] }, []string{"Config.Env lacks a variable"}},
	} {
		t.Run(name, func(t *testing.T) {
			response := healthy()
			test.change(&response)
			config, host := settings(m.plan)
			if diff := cmp.Diff(test.want, m.deviations(config, host, response)); diff != "" {
				t.Errorf("deviations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSwapWithoutAccounting(t *testing.T) {
	m := &making{plan: testPlan(), daemon: &daemon{memory: true}}
	_, got := settings(m.plan)
	got.MemorySwap = -1
	config, host := settings(m.plan)
	response := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{HostConfig: got}, Config: config}
	if faults := m.deviations(config, host, response); len(faults) > 0 {
		t.Errorf("faults %v where the kernel cannot account swap", faults)
	}
}

// The profile is a list of what is allowed; these must never be on it.
func TestSeccompProfile(t *testing.T) {
	var profile struct {
		DefaultAction string
		ArchMap       []struct {
			Architecture     string
			SubArchitectures []string
		}
		Syscalls []struct {
			Names  []string
			Action string
			Args   []map[string]any
		}
	}
	if err := json.Unmarshal([]byte(seccompProfile), &profile); err != nil {
		t.Fatal(err)
	}
	if profile.DefaultAction != "SCMP_ACT_ERRNO" {
		t.Errorf("default action %s", profile.DefaultAction)
	}
	for _, arch := range profile.ArchMap {
		if len(arch.SubArchitectures) > 0 {
			t.Errorf("%s allows calls of %v", arch.Architecture, arch.SubArchitectures)
		}
	}
	free := map[string]bool{}
	ruled := map[string]bool{}
	for _, rule := range profile.Syscalls {
		for _, name := range rule.Names {
			switch {
			case rule.Action != "SCMP_ACT_ALLOW":
			case len(rule.Args) == 0:
				free[name] = true
			default:
				ruled[name] = true
			}
		}
	}
	never := strings.FieldsSeq(`ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise io_uring_setup
		io_uring_enter io_uring_register userfaultfd splice tee vmsplice msgget semget shmget shmat mq_open modify_ldt
		remap_file_pages name_to_handle_at open_by_handle_at fanotify_init fanotify_mark ioprio_set sched_setscheduler
		sched_setattr mlock mlock2 mlockall seccomp landlock_create_ruleset capset setfsuid setfsgid adjtimex
		clock_adjtime clock_settime settimeofday socketcall syncfs sync uselib ustat sysfs vm86 mount umount2 move_mount
		open_tree fsopen fsconfig fsmount fspick mount_setattr pivot_root chroot unshare setns bpf perf_event_open
		keyctl add_key request_key kexec_load init_module finit_module delete_module reboot swapon swapoff acct quotactl
		iopl ioperm syslog vhangup sethostname setdomainname get_mempolicy mbind set_mempolicy nfsservctl personality
		socket clone clone3 openat2 mknod mknodat prlimit64 chmod fchmod fchmodat fchmodat2 creat open openat
		sched_setaffinity setpriority`)
	for name := range never {
		if free[name] {
			t.Errorf("%s is allowed without conditions", name)
		}
	}
	for name := range strings.FieldsSeq("socket clone personality mknodat prlimit64 open openat fchmodat setpriority") {
		if !ruled[name] {
			t.Errorf("%s is not allowed at all", name)
		}
	}
	for name := range strings.FieldsSeq("clone3 openat2 ptrace unshare") {
		if ruled[name] {
			t.Errorf("%s is allowed in some cases", name)
		}
	}
	for name := range strings.FieldsSeq("read write mmap execve futex epoll_wait fork vfork socketpair connect clock_gettime") {
		if !free[name] {
			t.Errorf("%s is not allowed", name)
		}
	}
}
