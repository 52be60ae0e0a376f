package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// verify asks the daemon what the running container is, and the kernel what
// its first process may do, and refuses a container that differs from the
// settings. It also notes where the container's processes are measured.
func (m *making) verify(ctx context.Context, s *Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	got, err := m.engine.api.ContainerInspect(ctx, s.id)
	if err != nil {
		return fmt.Errorf("inspect: %w", explain(m.engine.host, err))
	}
	config, host := settings(m.plan)
	if faults := m.deviations(config, host, got); len(faults) > 0 {
		return fmt.Errorf("%w: %s", errPosture, strings.Join(faults, "; "))
	}
	if !m.daemon.local || got.State.Pid == 0 {
		return nil
	}
	s.pid = got.State.Pid
	if !m.plan.gvisor() {
		if err := m.processPosture(s.pid); err != nil {
			return err
		}
	}
	s.groups = findGroups(s.pid)
	return nil
}

// daemonDecides are the fields whose value in the answer is the daemon's own
// when ours is empty, or that only describe the call. Everything else must
// come back as it was sent.
func daemonDecides() map[string]bool {
	return map[string]bool{
		"ContainerIDFile": true, "ConsoleSize": true, "Isolation": true, "Runtime": true,
		"CgroupParent": true, "KernelMemory": true, "VolumeDriver": true,
		// Of Config: the image's own words, and the command as the daemon splits it.
		"Image": true, "ArgsEscaped": true, "OnBuild": true, "Shell": true, "Env": true, "Labels": true,
		"MacAddress": true, "ExposedPorts": true,
	}
}

func (m *making) deviations(config *container.Config, host *container.HostConfig, got container.InspectResponse) []string {
	if m.daemon.memory && !m.daemon.swap {
		host.MemorySwap = got.HostConfig.MemorySwap // no swap accounting here: nothing to promise
	}
	faults := differences("HostConfig.", reflect.ValueOf(*host), reflect.ValueOf(*got.HostConfig))
	faults = append(faults, differences("Config.", reflect.ValueOf(*config), reflect.ValueOf(*got.Config))...)
	for _, pair := range config.Env {
		if !slices.Contains(got.Config.Env, pair) {
			faults = append(faults, "Config.Env lacks a variable")
		}
	}
	if got.HostConfig.Runtime != host.Runtime && host.Runtime != "" {
		faults = append(faults, "HostConfig.Runtime")
	}
	if m.daemon.apparmor && got.AppArmorProfile == "unconfined" {
		faults = append(faults, "AppArmor is off")
	}
	return append(faults, unexpectedMounts(host, got)...)
}

// unexpectedMounts finds a volume declared by the image, and whatever else was
// mounted behind our back.
func unexpectedMounts(host *container.HostConfig, got container.InspectResponse) []string {
	allowed := map[string]bool{}
	for _, mount := range host.Mounts {
		allowed[mount.Target] = mount.ReadOnly
	}
	var faults []string
	for _, mount := range got.Mounts {
		readOnly, ok := allowed[mount.Destination]
		if !ok || (readOnly && mount.RW) {
			faults = append(faults, "an unexpected mount at "+strconv.Quote(mount.Destination))
		}
	}
	return faults
}

// differences compares two structs of the same type field by field. Empty
// and absent lists are the same, and so are false and an absent switch.
func differences(prefix string, want, got reflect.Value) []string {
	var faults []string
	for i := range want.NumField() {
		field := want.Type().Field(i)
		if field.Anonymous {
			faults = append(faults, differences(prefix, want.Field(i), got.Field(i))...)
			continue
		}
		if !daemonDecides()[field.Name] && !sameValue(want.Field(i), got.Field(i)) {
			faults = append(faults, prefix+field.Name)
		}
	}
	return faults
}

func sameValue(want, got reflect.Value) bool {
	switch want.Kind() {
	case reflect.Slice, reflect.Map:
		if want.Len() == 0 && got.Len() == 0 {
			return true
		}
	case reflect.Struct:
		for i := range want.NumField() {
			if !sameValue(want.Field(i), got.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if want.Type().Elem().Kind() == reflect.Bool {
			return truth(want) == truth(got)
		}
	}
	return reflect.DeepEqual(want.Interface(), got.Interface())
}

func truth(pointer reflect.Value) bool { return !pointer.IsNil() && pointer.Elem().Bool() }

// processPosture reads from the kernel what no daemon can promise away.
func (m *making) processPosture(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return errEnded
	}
	if err != nil {
		return fmt.Errorf("read process status: %w", err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2"}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		want[set] = "0000000000000000"
	}
	if !m.daemon.remapped {
		uid := strconv.Itoa(m.plan.uid)
		want["Uid"] = strings.Join([]string{uid, uid, uid, uid}, "\t")
	}
	for key, value := range want {
		if status[key] != value {
			return fmt.Errorf("%w: %s of its first process is %q, not %q", errPosture, key, status[key], value)
		}
	}
	return nil
}
