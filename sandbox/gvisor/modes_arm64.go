//go:build linux && arm64

package gvisor

func modeCalls() []modeCall { return commonModeCalls() }
